import type * as pulumi from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { applyOptions, OPTIONS, type OptionName } from "../../../provider/options";

const of = (verdict: string) =>
  (Object.keys(OPTIONS) as OptionName[]).filter((name) => OPTIONS[name].verdict === verdict);
/** A value that counts as given. */
const value = (name: OptionName): unknown => (name === "deleteBeforeReplace" ? false : { some: "value" });
const given = (...names: OptionName[]) =>
  Object.fromEntries(names.map((name) => [name, value(name)])) as pulumi.CustomResourceOptions;

describe("R-23 Pulumi's options", () => {
  test.each(of("refused"))("%s is refused, with what to do instead", (name) => {
    expect(() => applyOptions("vm", given(name))).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(`^VgpuInstance 'vm': the option ${name} is refused. .{20}`),
      }),
    );
  });

  test("all that is refused is named at once", () => {
    expect(() => applyOptions("vm", given("import", "version"))).toThrow(/import is refused[\s\S]*version is refused/);
    expect(() => applyOptions("vm", given("import"))).toThrow("adopt: true");
  });

  test.each(of("ignored"))("%s is dropped with a warning that says why", (name) => {
    const { options, warnings } = applyOptions("vm", given(name));
    expect(warnings).toEqual([expect.stringMatching(`the option ${name} is ignored. .{20}`)]);
    expect(options).toEqual({ additionalSecretOutputs: ["connection"], deleteBeforeReplace: true });
  });

  test.each(of("works").filter((name) => !["additionalSecretOutputs", "ignoreChanges"].includes(name)))(
    "%s is handed on as it is",
    (name) => {
      const { options, warnings } = applyOptions("vm", given(name));
      expect(warnings).toEqual([]);
      expect(options).toMatchObject(given(name));
    },
  );

  test("an option that is undefined, null or an empty list is not given", () => {
    const nothing = { import: undefined, id: null, replaceOnChanges: [], deletedWith: undefined } as never;
    expect(applyOptions("vm", nothing).warnings).toEqual([]);
    expect(applyOptions("vm", { deleteBeforeReplace: true }).warnings).toEqual([]);
  });

  test("customTimeouts names what to use", () => {
    expect(applyOptions("vm", { customTimeouts: { delete: "3s" } }).warnings[0]).toContain("shutdownTimeout");
  });

  test("the connection stays secret beside what else is", () => {
    const { options } = applyOptions("vm", { additionalSecretOutputs: ["uuid"] });
    expect(options.additionalSecretOutputs).toEqual(["connection", "uuid"]);
  });

  test.each([
    [["image"], ["image", "imageSha256"]],
    [["image.file"], ["image.file", "imageSha256"]],
    [["memory"], ["memory"]],
    [["imageOther"], ["imageOther"]],
  ])("ignoreChanges %j becomes %j", (ignored, becomes) => {
    expect(applyOptions("vm", { ignoreChanges: ignored }).options.ignoreChanges).toEqual(becomes);
  });
});
