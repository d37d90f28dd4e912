import { describe, expect, test } from "vitest";
import { checkInputs } from "../../../provider/dynamic/check";
import { UNKNOWN } from "../../../provider/dynamic/inputs";

type Values = Record<string, unknown>;
const good = {
  host: "gpu-1.example.com",
  name: "trainer-1",
  profile: "NVIDIA L40S-8Q",
  vcpus: 8,
  memory: "32GiB",
  owner: "organization/urn:pulumi:dev::test::pulumi-nodejs:dynamic/vgpu:VgpuInstance::trainer-1",
  __provider: "text",
};
const failures = async (more: Values) => (await checkInputs({ ...good, ...more })).failures;

describe("check", () => {
  test("fills in the defaults", async () => {
    const { inputs, failures: none } = await checkInputs({ ...good, gpu: null });
    expect(none).toEqual([]);
    expect(inputs).toEqual({
      ...good,
      connection: {},
      running: true,
      restartPolicy: "OnFailure",
      shutdownTimeout: "60s",
      adopt: false,
    });
  });

  const bad: Array<[string, Values, string, RegExp]> = [
    ["no host", { host: undefined }, "host", /is required: expected a string/],
    ["a host with a slash", { host: "gpu-1/x" }, "host", /a host name or IP address/],
    ["a host that looks like an option", { host: "-oProxyCommand=x" }, "host", /a host name/],
    ["an empty host", { host: "" }, "host", /not empty/],
    ["a name with capitals", { name: "Trainer" }, "name", /1 to 40 of a-z/],
    ["a name that is too long", { name: "x".repeat(41) }, "name", /1 to 40/],
    ["a name with a dash at its end", { name: "trainer-" }, "name", /no dash at either end/],
    ["a name with a path", { name: "../trainer" }, "name", /1 to 40/],
    ["a profile with a newline", { profile: "NVIDIA\nL40S-8Q" }, "profile", /control characters/],
    ["a profile with NUL", { profile: "NVIDIA\u0000" }, "profile", /control characters/],
    ["an upper-case PCI address", { gpu: "0000:3B:00.0" }, "gpu", /a PCI address such as/],
    ["a short PCI address", { gpu: "3b:00.0" }, "gpu", /a PCI address/],
    ["negative vcpus", { vcpus: -1 }, "vcpus", /at least 1/],
    ["half a vcpu", { vcpus: 1.5 }, "vcpus", /a whole number/],
    ["vcpus as text", { vcpus: "8" }, "vcpus", /a number/],
    ["too many vcpus", { vcpus: 5000 }, "vcpus", /at most 1024/],
    ["decimal memory", { memory: "32GB" }, "memory", /a binary size such as "32GiB"/],
    ["memory as a number", { memory: 32 }, "memory", /a string/],
    ["memory without a unit", { memory: "32" }, "memory", /a binary size/],
    ["no memory", { memory: "0GiB" }, "memory", /a binary size/],
    ["a timeout without a unit", { shutdownTimeout: "60" }, "shutdownTimeout", /a duration such as "90s"/],
    ["a timeout that is too long", { shutdownTimeout: "11m" }, "shutdownTimeout", /from 0s to 600s/],
    ["a policy in lower case", { restartPolicy: "always" }, "restartPolicy", /one of "Never", "OnFailure", "Always"/],
    ["running as text", { running: "yes" }, "running", /true or false/],
    ["two kinds of image", { image: { hostPath: "/a", file: "/b" } }, "image.hostPath", /unknown property/],
    ["an image of no kind", { image: { path: "/a" } }, "image", /one of { file }/],
    ["a relative path on the host", { image: { hostPath: "a.img" } }, "image.hostPath", /an absolute path/],
    ["a path with ..", { image: { hostPath: "/images/../etc/shadow" } }, "image.hostPath", /without '..'/],
    ["a path with a newline", { image: { hostPath: "/images/a\nb" } }, "image.hostPath", /control characters/],
    ["a download without a hash", { image: { url: "https://example.com/a.img" } }, "image.sha256", /is required/],
    [
      "a download by another protocol",
      { image: { url: "ftp://example.com/a", sha256: "0".repeat(64) } },
      "image.url",
      /http/,
    ],
    ["a clone", { image: { instance: "other" } }, "image", /one of { file }/],
    ["a file that is not there", { image: { file: "/nowhere/a.img" } }, "image.file", /there is none/],
    ["preflight", { preflight: true }, "preflight", /unknown property/],
    ["a port that is none", { connection: { port: 0 } }, "connection.port", /at least 1/],
    ["a host key that is none", { connection: { hostKey: "abc" } }, "connection.hostKey", /a public key such as/],
    [
      "a public key",
      { connection: { privateKey: "ssh-ed25519 AAAAC3Nz" } },
      "connection.privateKey",
      /it is a public key/,
    ],
    ["a jump host without an address", { connection: { proxy: {} } }, "connection.proxy.host", /is required/],
    [
      "a bad second jump host",
      { connection: { proxy: [{ host: "a" }, { host: "b", port: 1e6 }] } },
      "connection.proxy[1].port",
      /65535/,
    ],
    ["a misspelt input", { vcpu: 8 }, "vcpu", /did you mean 'vcpus'\?/],
    [
      "a misspelt connection",
      { connection: { privatekey: "x" } },
      "connection.privatekey",
      /did you mean 'privateKey'\?/,
    ],
    [
      "an input of another product",
      { cloudInit: "x" },
      "cloudInit",
      /unknown property; known properties: host, connection/,
    ],
  ];
  test.each(bad)("R-09 refuses %s", async (_what, more, property, reason) => {
    const found = (await failures(more)).find((problem) => problem.property === property);
    expect(found?.reason).toMatch(reason);
  });

  test("R-09 names every problem at once", async () => {
    const found = await failures({
      host: "",
      vcpus: -1,
      memory: "1GB",
      vcpu: 3,
      connection: { port: "22", proxy: [{ user: "a b" }] },
    });
    expect(found.map(({ property }) => property).sort()).toEqual([
      "connection.port",
      "connection.proxy[0].host",
      "connection.proxy[0].user",
      "host",
      "memory",
      "vcpu",
      "vcpus",
    ]);
  });

  test("R-16 never repeats a value", async () => {
    const secret = "hunter2-hunter2";
    const values = { privateKey: secret, password: [secret], privateKeyPassword: 5, hostKey: secret, proxy: secret };
    const found = await failures({ connection: values, memory: secret, restartPolicy: secret, image: secret });
    expect(found.length).toBeGreaterThan(5);
    expect(JSON.stringify(found)).not.toContain("hunter2");
  });

  test("R-10 does not judge what is not known yet, at any depth", async () => {
    expect(
      await failures({ host: UNKNOWN, vcpus: UNKNOWN, connection: UNKNOWN, image: UNKNOWN, gpu: UNKNOWN }),
    ).toEqual([]);
    const deep = {
      port: UNKNOWN,
      privateKey: UNKNOWN,
      hostKey: UNKNOWN,
      proxy: [{ host: UNKNOWN, port: UNKNOWN }, UNKNOWN],
    };
    expect(await failures({ connection: deep, image: { url: UNKNOWN, sha256: UNKNOWN } })).toEqual([]);
    expect(await failures({ image: { file: UNKNOWN } })).toEqual([]);
    const mixed = await failures({
      connection: { port: UNKNOWN, user: "a b" },
      image: { url: UNKNOWN, sha256: "short" },
    });
    expect(mixed.map(({ property }) => property)).toEqual(["connection.user", "image.sha256"]);
  });
});
