import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";
import { VgpuError } from "../../../provider/protocol/errors";
import { connect } from "../../../provider/ssh/connect";
import { load, type Program } from "../../../provider/ssh/program";
import { execVerb } from "../../../provider/ssh/run";
import { uploadImage, uploadProgram } from "../../../provider/ssh/upload";
import { Sshd, type SshdOptions } from "../../fixtures/sshd";
import { requires } from "../../support/requirements";

let sshd: Sshd;

afterEach(() => sshd.stop());

const versions = () => join(sshd.dir, "usr-local-lib/vgpu/versions");
const sha256 = (bytes: Buffer | string) => createHash("sha256").update(bytes).digest("hex");

/** A program's archive with a launcher that answers. */
async function program(name = "answers.sh"): Promise<Program> {
  const folder = join(sshd.dir, `program-${name}`);
  mkdirSync(folder, { recursive: true });
  const fixture = join(__dirname, "../../fixtures/remote", name);
  writeFileSync(join(folder, "vgpu-host"), `#!/bin/sh\nexec sh ${fixture}\n`, { mode: 0o755 });
  writeFileSync(join(folder, "VERSION"), "0.1.0\n");
  await execa("tar", ["-czf", join(folder, "program.tgz"), "-C", folder, "vgpu-host", "VERSION"]);
  const digest = sha256(readFileSync(join(folder, "program.tgz")));
  writeFileSync(join(folder, "program.json"), JSON.stringify({ sha256: digest, version: "0.1.0" }));
  return load(folder);
}

async function open(options: SshdOptions = {}, user = "root") {
  sshd = await Sshd.start(options);
  return connect(sshd.target({ user }));
}

requires(
  "root",
  "namespaces",
  "sshd",
)("uploading the program", () => {
  test("S-11 needs no SFTP, and the version then runs", async () => {
    const connection = await open({ config: ["Subsystem sftp /bin/false"] });
    const brought = await program();
    expect(await execVerb(connection, { verb: "list" }, { program: brought.sha256 })).toBe("not installed");
    await uploadProgram(connection, brought);
    expect(await execVerb(connection, { verb: "list" }, { program: brought.sha256 })).toMatchObject({ ok: true });
    expect(readdirSync(versions())).toEqual([brought.sha256]);
    connection.close();
  });

  test("S-07 works through sudo and a chatty login script", async () => {
    const accounts = [{ name: "operator", files: { ".bashrc": "echo noise; printf more\n" } }];
    const connection = await open({ accounts, sudoers: "operator ALL=(root) NOPASSWD: /bin/sh\n" }, "operator");
    const brought = await program();
    await uploadProgram(connection, brought);
    expect(await execVerb(connection, { verb: "list" }, { program: brought.sha256 })).toMatchObject({ ok: true });
    connection.close();
  });

  test("S-09 two uploads at once leave one whole version and nothing else", async () => {
    const connection = await open();
    const brought = await program();
    await Promise.all([1, 2, 3, 4].map(() => uploadProgram(connection, brought)));
    await uploadProgram(connection, brought);
    expect(readdirSync(versions())).toEqual([brought.sha256]);
    connection.close();
  });

  test("S-09 root refuses content that does not have the hash", async () => {
    const connection = await open();
    const brought = await program();
    const changed: Program = { ...brought, archive: async () => Buffer.from("something else") };
    await expect(uploadProgram(connection, changed)).rejects.toThrow(/damaged or changed on the way/);
    expect(readdirSync(versions())).toEqual([]);
    connection.close();
  });

  test("S-09 an upload that is cut off leaves no version", async () => {
    const connection = await open();
    const big = Buffer.alloc(64 * 1024 * 1024, 1);
    const upload = uploadProgram(connection, { sha256: sha256(big), version: "0", archive: async () => big });
    const fails = expect(upload).rejects.toMatchObject({ code: "host_unreachable" });
    while (!readdirSync(versions()).some((entry) => entry.startsWith(".incoming")))
      await new Promise((done) => setTimeout(done, 5));
    connection.close();
    await fails;
    expect(readdirSync(versions())).not.toContain(sha256(big));
  }, 20_000);

  test("S-08 a full disk is named", async () => {
    const connection = await open();
    rmSync(join(sshd.dir, "usr-local-lib/vgpu"), { recursive: true });
    writeFileSync(join(sshd.dir, "usr-local-lib/vgpu"), "in the way");
    const error = await uploadProgram(connection, await program()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(VgpuError);
    expect(error).toMatchObject({ code: "host_not_ready", message: expect.stringContaining("Not a directory") });
    connection.close();
  });

  test("is found by its package, and a damaged one is refused", async () => {
    const connection = await open();
    const brought = await program();
    writeFileSync(join(sshd.dir, "program-answers.sh", "program.tgz"), "damaged");
    await expect(brought.archive()).rejects.toThrow(/damaged/);
    await expect(load(join(sshd.dir, "nowhere"))).rejects.toThrow(/missing from the package/);
    connection.close();
  });
});

requires(
  "root",
  "namespaces",
  "sshd",
)("uploading an image", () => {
  const content = Buffer.alloc(3 * 1024 * 1024 + 7, "disk");
  let file: string;
  beforeEach(() => {
    file = "";
  });

  async function withStore() {
    const connection = await open();
    mkdirSync(join(sshd.dir, "var-lib/vgpu"));
    writeFileSync(join(sshd.dir, "var-lib/vgpu/store.json"), "{}");
    file = join(sshd.dir, "disk.img");
    writeFileSync(file, content);
    return connection;
  }
  const incoming = () => join(sshd.dir, "var-lib/vgpu/images/incoming");

  test("brings it under its hash, readable by root only", async () => {
    const connection = await withStore();
    await uploadImage(connection, file, sha256(content));
    expect(readdirSync(incoming())).toEqual([`${sha256(content)}.img`]);
    expect(readFileSync(join(incoming(), `${sha256(content)}.img`)).equals(content)).toBe(true);
    connection.close();
  });

  test("keeps nothing of a file that changed meanwhile", async () => {
    const connection = await withStore();
    await expect(uploadImage(connection, file, sha256("other"))).rejects.toThrow(/damaged or changed/);
    expect(readdirSync(incoming())).toEqual([]);
    connection.close();
  });

  test("says when the file cannot be read, before or while it is sent", async () => {
    const connection = await withStore();
    const gone = join(sshd.dir, "gone.img");
    await expect(uploadImage(connection, gone, sha256(content))).rejects.toMatchObject({ code: "invalid_request" });
    await expect(uploadImage(connection, sshd.dir, sha256(content))).rejects.toMatchObject({ code: "invalid_request" });
    expect(readdirSync(incoming())).toEqual([]);
    connection.close();
  });

  test("R-30 is cancelled when its requester has gone", async () => {
    const connection = await withStore();
    // A file that never ends and never says anything.
    const endless = join(sshd.dir, "endless");
    await execa("mkfifo", [endless]);
    const writer = execa("sh", ["-c", `exec sleep 60 > ${endless}`], { reject: false });
    try {
      const upload = uploadImage(connection, endless, sha256(content), { requesterLives: async () => false });
      await expect(upload).rejects.toThrow(/nobody waits for it any more/);
      await expect.poll(() => readdirSync(incoming()), { timeout: 10_000 }).toEqual([]);
    } finally {
      writer.kill();
      await writer;
    }
    connection.close();
  }, 30_000);

  test("K-15 writes nothing where the store is not mounted", async () => {
    const connection = await withStore();
    rmSync(join(sshd.dir, "var-lib/vgpu"), { recursive: true });
    await expect(uploadImage(connection, file, sha256(content))).rejects.toMatchObject({
      code: "host_not_ready",
    });
    expect(existsSync(join(sshd.dir, "var-lib/vgpu"))).toBe(false);
    connection.close();
  });
});
