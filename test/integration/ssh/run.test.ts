import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { VgpuError } from "../../../provider/protocol/errors";
import { connect } from "../../../provider/ssh/connect";
import type { Connection } from "../../../provider/ssh/connection";
import { type Ask, execVerb } from "../../../provider/ssh/run";
import { Sshd, type SshdOptions } from "../../fixtures/sshd";
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
  test("answers the result and the progress, in one exec", async () => {
    const progress: string[] = [];
    const options = { program: SHA, onProgress: (text: string) => progress.push(text) };
    const result = await execVerb(await host("answers.sh"), list, options);
    expect(result).toMatchObject({ ok: true, value: { seen: expect.stringMatching(/^vgpu-/) } });
    expect(progress).toEqual(["working"]);
    expect(sshd?.log.match(/Starting session: command/g)).toHaveLength(1);
  });

  test("says when the version is not installed", async () => {
    expect(await execVerb(await host(undefined), list, { program: SHA })).toBe("not installed");
  });

  test("R-14 says that the result is unknown when the program crashes, with its last output", async () => {
    const error = await failure(execVerb(await host("crash.sh"), remove, { program: SHA }));
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("delete of instance 'trainer-1' on 127.0.0.1");
    expect(error.message).toContain("ended with 134");
    expect(error.message).toContain("TypeError: boom at line 1");
  });

  test("R-14 takes no garbage for an answer", async () => {
    const error = await failure(execVerb(await host("garbage.sh"), remove, { program: SHA }));
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("PHP Warning: something");
  });

  test.each(["flood.sh", "flood-lines.sh"])(
    "R-14 gives up on 100 MB of no answer with bounded memory (%s)",
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
      expect(error.message).toContain("more than 16 MiB that is no answer");
      expect(peak - before).toBeLessThan(80 * 1024 * 1024);
    },
  );

  test("R-14 keeps only the end of what comes on stderr", async () => {
    expect(await execVerb(await host("stderr-flood.sh"), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("R-14 is bounded when a login script never stops talking", async () => {
    const files = { ".bashrc": "yes 'welcome to this machine'\n" };
    const error = await failure(
      execVerb(await host("answers.sh", { accounts: [{ name: "root", files }] }), list, { program: SHA }),
    );
    expect(error).toMatchObject({ code: "host_unreachable", details: { phase: "run" } });
    expect(error.message).toContain("more than 16 MiB that is no answer");
  });

  test("R-14 drops a line that is too long and hears what follows", async () => {
    expect(await execVerb(await host("long-line.sh"), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-12 gives up a verb that says nothing for too long", async () => {
    const error = await failure(execVerb(await host("silent.sh"), remove, { program: SHA, silenceMs: 1_000 }));
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("said nothing for too long");
  }, 20_000);

  test("S-12 heartbeats keep a channel alive that the server would cut", async () => {
    const config = ["ChannelTimeout session:command=3s"];
    expect(await execVerb(await host("beats.js", { config }), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-12 a channel that the server cuts all the same leaves the result unknown", async () => {
    const config = ["ChannelTimeout session:command=1s"];
    const error = await failure(execVerb(await host("silent.sh", { config }), remove, { program: SHA }));
    expect(error.code).toBe("result_unknown");
  });

  test("survives a program that closes its input", async () => {
    expect(await execVerb(await host("closes-stdin.sh"), list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("treats text of the host as data", async () => {
    const progress: string[] = [];
    await execVerb(await host("escapes.sh"), list, { program: SHA, onProgress: (text) => progress.push(text) });
    expect(progress).toEqual(["one two three"]);
  });

  test("pings while the requester lives, and stops when it has gone", async () => {
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

  test("S-04 says that the result is unknown when the connection dies in the middle", async () => {
    const connected = await host("one-word.sh");
    let dies = Promise.resolve(new VgpuError("internal", "not begun"));
    await new Promise<void>((working) => {
      dies = failure(execVerb(connected, remove, { program: SHA, onProgress: () => working() }));
    });
    await sshd?.down();
    const error = await dies;
    expect(error.code).toBe("result_unknown");
    expect(error.message).toContain("the connection ended");
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

  test("S-07 names the sudoers line when the user is in no sudoers file", async () => {
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

  test("S-07 is not disturbed by a chatty login script that leaves an unfinished line", async () => {
    const files = { ".bashrc": "echo Welcome; echo to; printf 'the machine '\n" };
    const host1 = await host("answers.sh", { accounts: [{ name: "root", files }] });
    expect(await execVerb(host1, list, { program: SHA })).toMatchObject({ ok: true });
  });

  test("S-07 names the user to take when root's account only says so", async () => {
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
