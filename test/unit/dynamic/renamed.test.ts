import { expect, test } from "vitest";
import { formerUrn, withAlias } from "../../../provider/dynamic/renamed";
import { VgpuError } from "../../../provider/protocol/errors";

const urn = (rest: string) => `urn:pulumi:dev::e2e::${rest}`;
const TYPE = "pulumi-nodejs:dynamic/vgpu:VgpuInstance";
const OWN = `acme/${urn(`my:index:Pool$${TYPE}::vm`)}`;

test.each<[string, string, string | undefined]>([
  ["moved into a component", urn(`${TYPE}::vm`), urn(`${TYPE}::vm`)],
  ["renamed", urn(`my:index:Pool$${TYPE}::old::name`), urn(`my:index:Pool$${TYPE}::old::name`)],
  ["the very same", OWN.slice("acme/".length), undefined],
  ["another stack", `urn:pulumi:prod::e2e::${TYPE}::vm`, undefined],
  ["another project", `urn:pulumi:dev::other::${TYPE}::vm`, undefined],
  ["made on the host by a person", "", undefined],
])("R-31 %s", (_, there, former) => {
  expect(formerUrn(`acme/${there}`, OWN)).toBe(former);
});

test("R-31 another organisation's stack is not this one", () => {
  expect(formerUrn(`other/${urn(`${TYPE}::vm`)}`, OWN)).toBeUndefined();
});

test("R-31 a refusal by the program's own former resource names the alias, any other keeps its hint", () => {
  const refusal = (owner: string) =>
    new VgpuError("owned_by_other", `on h: Instance vm was made by ${owner} at 2026-11-30T09:09:07.637Z.`);
  const former = urn(`${TYPE}::a name at 2 places`);
  expect(withAlias(refusal(`acme/${former}`), OWN).hint).toContain(`aliases: ["${former}"]`);
  expect(withAlias(refusal("other/whoever"), OWN).hint).toContain("adopt: true");
});
