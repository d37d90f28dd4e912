import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { VgpuError } from "../../../provider/protocol/errors";
import { RECEIVED } from "../../../provider/protocol/messages";
import { connect } from "../../../provider/ssh/connect";
import type { Connection } from "../../../provider/ssh/connection";
import { type Ask, execVerb } from "../../../provider/ssh/run";
import { Sshd, type SshdOptions } from "../../fixtures/sshd";
import { spec } from "../../sim/run";
import { requires } from "../../support/requirements";

const SHA = "a".repeat(64);
const list = { verb: "list" } as const;
const remove: Ask = { verb: "delete", instance: "trainer-1" };
let sshd: Sshd | undefined;
let connection: Connection | undefined;

afterEach(async () => {
  connection?.close();
  await sshd?.stop();
});

async function host(fixture: string | undefined, options: SshdOptions = {}, user = "root"): Promise<Connection> {
  sshd = await Sshd.start(options);
  if (fixture) sshd.installFixture(SHA, fixture);
  connection = await connect(sshd.target({ user }));
  return connection;
}

async function failure(work: Promise<unknown>): Promise<VgpuError> {
  const error = await work.then(
    (value) => new Error(`no failure: ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof VgpuError)) throw error;
  return error;
}

requires(
  "root",
  "namespaces",
  "sshd",
)("running a verb", () => {
  test("returns the result and reports progress, in one exec", async () => {
    const progress: string[] = [];
    const options = { program: SHA, onProgress: (text: string) => progress.push(text) };
    const result = await execVerb(await host("answers.sh"), list, options);
    expect(result).toMatchObject({ ok: true, value: { seen: expect.stringMatching(/^vgpu-/) } });
    expect(progress).toEqual(["working"]);
    expect(sshd?.log.match(/Starting session: command/g)).toHaveLength(1);
  });

  test("reports that the version is not installed", async () => {
    expect(await execVerb(await host(undefined), list, { program: SHA })).toBe("not installed");
  });

  test("R-14 reports that the result is unknown when the program crashes, with its stderr", async () => {
    const error = await failure(execVerb(await host("crash.sh"), remove, { program: SHA }));
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("delete of instance 'trainer-1' on 127.0.0.1");
    expect(error.message).toContain("ended with 134");
    expect(error.message).toContain("TypeError: boom at line 1");
  });

  test("R-14 does not accept garbage as a result", async () => {
    const error = await failure(execVerb(await host("garbage.sh"), remove, { program: SHA }));
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("PHP Warning: something");
  });

  test.each(["flood.sh", "flood-lines.sh"])(
    "R-14 aborts after 16 MiB of unexpected output, with bounded memory (%s)",
    async (fixture) => {
      const verb = execVerb(await host(fixture), remove, { program: SHA });
      const before = process.memoryUsage().rss;
      let peak = before;
      const watch = setInterval(() => {
        peak = Math.max(peak, process.memoryUsage().rss);
      }, 20);
      const error = await failure(verb);
      clearInterval(watch);
      expect(error.code).toBe("result_unknown");
      expect(error.message).toContain("more than 16 MiB of unexpected output");
      expect(peak - before).toBeLessThan(80 * 1024 * 1024);
    },
  );

  test("R-14 keeps only the end of stderr", async () => {
    expect(await execVerb(await host("stderr-flood.sh"), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("R-14 aborts when a login script prints without end", async () => {
    const files = { ".bashrc": "yes 'welcome to this machine'\n" };
    const error = await failure(
      execVerb(await host("answers.sh", { accounts: [{ name: "root", files }] }), list, { program: SHA }),
    );
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "run" } });
    expect(error.message).toContain("more than 16 MiB of unexpected output");
  });

  test("R-14 drops a line that is too long and reads the next ones", async () => {
    expect(await execVerb(await host("long-line.sh"), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-12 aborts a verb that prints nothing for too long", async () => {
    const error = await failure(execVerb(await host("silent.sh"), remove, { program: SHA, silenceMs: 1_000 }));
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("no output for 1 s");
  }, 20_000);

  test("S-12 heartbeats keep a channel open that the server would close as idle", async () => {
    const config = ["ChannelTimeout session:command=3s"];
    expect(await execVerb(await host("beats.js", { config }), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-12 the result is unknown when the server closes the channel", async () => {
    const config = ["ChannelTimeout session:command=1s"];
    const error = await failure(execVerb(await host("silent.sh", { config }), remove, { program: SHA }));
    expect(error.code).toBe("result_unknown");
  });

  test("survives a program that closes its input", async () => {
    expect(await execVerb(await host("closes-stdin.sh"), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("removes control characters from text of the host", async () => {
    const progress: string[] = [];
    await execVerb(await host("escapes.sh"), list, { program: SHA, onProgress: (text) => progress.push(text) });
    expect(progress).toEqual(["one two three"]);
  });

  test("pings while the requester is alive, and stops when it has gone", async () => {
    let lives = true;
    const options = {
      program: SHA,
      requesterLives: async () => lives,
      onProgress: (text: string) => {
        if (text === "ping 2") lives = false;
      },
    };
    const result = await execVerb(await host("counts-pings.js"), list, options);
    expect(result).toMatchObject({ value: { pings: 2 } });
  }, 30_000);

  const make = (instance: string, place?: string): Ask => ({
    verb: "create",
    instance,
    incarnation: "0".repeat(32),
    owner: "o",
    spec: spec(),
    adopt: false,
    ...(place !== undefined && { place }),
  });
  const here = "1".repeat(64);
  const heard = () =>
    readFileSync(join(sshd?.dir ?? "", "var-lib/heard"), "utf8")
      .trim()
      .split("\n");

  test("R-29 confirms the result of a create, and waits until the host has saved it", async () => {
    const result = await execVerb(await host("waits-for-word.js"), make("a", here), { program: SHA });
    expect(result).toMatchObject({ ok: true, warnings: [] });
    expect(heard()).toEqual([RECEIVED, "saved"]);
  });

  test("R-29 closes stdin without a confirmation when the engine has gone", async () => {
    const options = { program: SHA, requesterLives: async () => false };
    expect(await execVerb(await host("waits-for-word.js"), make("a", here), options)).toMatchObject({ warnings: [] });
    expect(heard()).toEqual(["closed"]);
  });

  test("R-29 warns when the host could not save the confirmation", async () => {
    const result = await execVerb(await host("waits-for-word.js"), make("unsaved", here), { program: SHA });
    expect(result).toMatchObject({ ok: true, warnings: [expect.stringContaining("pulumi refresh")] });
  });

  test("R-29 waits a bounded time for the host to save it", async () => {
    const began = Date.now();
    const result = await execVerb(await host("waits-for-word.js"), make("slow", here), { program: SHA });
    expect(result).toMatchObject({ ok: true, warnings: [expect.stringContaining("pulumi refresh")] });
    expect(Date.now() - began).toBeLessThan(15_000);
  }, 20_000);

  test.each([
    ["a create that names no place", make("a")],
    ["another verb", { ...make("a", here), verb: "update" } as Ask],
    ["a failure", make("failing", here)],
  ])("R-29 %s is not confirmed", async (_what, ask) => {
    const running = execVerb(await host("waits-for-word.js"), ask, { program: SHA });
    expect(await running).not.toBe("not installed");
    expect(existsSync(join(sshd?.dir ?? "", "var-lib/heard"))).toBe(false);
  });

  test("R-29 a program that does not support confirmations works as before", async () => {
    const result = await execVerb(await host("answers.sh"), make("a", here), { program: SHA });
    expect(result).toMatchObject({ ok: true, warnings: [] });
  });

  test("S-04 reports that the result is unknown when the connection is lost", async () => {
    const connected = await host("one-word.sh");
    let dies = Promise.resolve(new VgpuError("internal", "not begun"));
    await new Promise<void>((working) => {
      dies = failure(execVerb(connected, remove, { program: SHA, onProgress: () => working() }));
    });
    await sshd?.down();
    const error = await dies;
    expect(error.code).toBe("result_unknown");
    expect(error.message).toMatch(/is unknown: the connection was closed|is unknown: .*(ECONNRESET|closed|lost)/);
  });
});

const operator = { name: "operator" };
const allowed = "operator ALL=(root) NOPASSWD: /bin/sh\n";

requires(
  "root",
  "namespaces",
  "sshd",
)("S-07 becoming root", () => {
  test("S-07 works with sudo without a password", async () => {
    const host1 = await host("answers.sh", { accounts: [operator], sudoers: allowed }, "operator");
    expect(await execVerb(host1, list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-07 names the sudoers line when sudo asks for a password", async () => {
    const host1 = await host(
      "answers.sh",
      { accounts: [operator], sudoers: "operator ALL=(root) /bin/sh\n" },
      "operator",
    );
    const error = await failure(execVerb(host1, list, { program: SHA }));
    expect(error.code).toBe("sudo_refused");
    expect(error.hint).toContain("operator ALL=(root) NOPASSWD: /bin/sh");
    expect(error.message).toContain("password is required");
  });

  test("S-07 names the sudoers line when no sudoers file has the user", async () => {
    const host1 = await host("answers.sh", { accounts: [operator], sudoers: "root ALL=(ALL) ALL\n" }, "operator");
    const error = await failure(execVerb(host1, list, { program: SHA }));
    expect(error).toMatchObject({ code: "sudo_refused", hint: expect.stringContaining("NOPASSWD: /bin/sh") });
  });

  test("S-07 names requiretty", async () => {
    const sudoers = `Defaults:operator requiretty\n${allowed}`;
    const host1 = await host("answers.sh", { accounts: [operator], sudoers }, "operator");
    const error = await failure(execVerb(host1, list, { program: SHA }));
    expect(error).toMatchObject({ code: "sudo_refused", hint: expect.stringContaining("!requiretty") });
  });

  test("S-07 ignores the output of a login script, even an unfinished line", async () => {
    const files = { ".bashrc": "echo Welcome; echo to; printf 'the machine '\n" };
    const host1 = await host("answers.sh", { accounts: [{ name: "root", files }] });
    expect(await execVerb(host1, list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-07 names the user that the root account asks for", async () => {
    const command = 'echo \'Please login as the user "ubuntu" rather than the user "root".\'; sleep 1';
    const host1 = await host("answers.sh", { config: [`ForceCommand ${command}`] });
    const error = await failure(execVerb(host1, list, { program: SHA }));
    expect(error).toMatchObject({ code: "auth_failed", hint: "Set connection.user to ubuntu." });
  });
});

requires(
  "root",
  "namespaces",
  "sshd",
)("S-11 login shells", () => {
  test.each(["/bin/dash", "/bin/bash", "/usr/bin/fish", "/usr/bin/tcsh"])("S-11 works with %s", async (shell) => {
    expect(existsSync(shell), `${shell} is not installed`).toBe(true);
    const host1 = await host("answers.sh", { accounts: [{ name: "operator", shell }], sudoers: allowed }, "operator");
    expect(await execVerb(host1, list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-11 names a restricted shell", async () => {
    const host1 = await host("answers.sh", { accounts: [{ name: "root", shell: "/bin/rbash" }] });
    const error = await failure(execVerb(host1, list, { program: SHA }));
    expect(error).toMatchObject({ code: "host_not_ready", message: expect.stringContaining("restricted shell") });
  });

  test("S-11 names an account without a shell", async () => {
    const host1 = await host("answers.sh", { accounts: [{ name: "root", shell: "/usr/sbin/nologin" }] });
    const error = await failure(execVerb(host1, list, { program: SHA }));
    expect(error).toMatchObject({ code: "host_not_ready", message: expect.stringContaining("no login shell") });
  });

  test("S-11 leaves nothing behind outside the test's folder", () => {
    expect(existsSync(join("/usr/local/lib/vgpu/versions", SHA))).toBe(false);
  });
});
