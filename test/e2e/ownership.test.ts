import { expect } from "vitest";
import { test as base } from "../support/projects";
import { requires } from "../support/requirements";
import { programFor } from "./program";

const test = base.extend("qemus", ({ host }) => async (id: string) => {
  return (await host.processes()).filter(
    ({ command }) => command.includes("-uuid") && command.includes(`guest=${id},`),
  );
});
test.override("hostOptions", { scope: "file" }, { gpus: 2, vfs: 4 });

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("ownership of an instance, through the real engine", () => {
  test("R-26 up --replace deletes the old one before the new one is made, and never takes it over", async ({
    host,
    newProject,
    qemus,
  }) => {
    const project = await newProject(programFor(host, { name: "replaced" }));
    expect((await project.up()).code).toBe(0);
    const [before] = await project.instances();
    const up = await project.up("--replace", before?.urn as string);
    expect(up.code, up.text).toBe(0);
    const [after] = await project.instances();
    expect(after?.outputs.incarnation).not.toBe(before?.outputs.incarnation);
    expect(after?.outputs).toMatchObject({ state: "running", vfAddress: before?.outputs.vfAddress });
    expect((await host.writes()).map(({ value }) => value)).toEqual(["1152", "0", "1152"]);
    expect(await qemus("replaced")).toHaveLength(1);
    expect((await project.destroy()).code).toBe(0);
  });

  test("R-28 another store behind the name: nothing is dropped, nothing is made, and the message says what to do", async ({
    host,
    newProject,
  }) => {
    const project = await newProject(programFor(host, { name: "elsewhere" }));
    expect((await project.up()).code).toBe(0);
    const real = (await host.exec(["cat", "/etc/vgpu/store-id"])).stdout;
    const other = "99999999-9999-4999-8999-999999999999";
    await host.exec(["sed", "-i", `s/${real.trim()}/${other}/`, "/etc/vgpu/store-id", "/var/lib/vgpu/store.json"]);
    const writes = (await host.writes()).length;
    for (const command of [project.refresh, project.destroy]) {
      const end = await command();
      expect(end.code).not.toBe(0);
      expect(end.text).toContain("store_mismatch");
      expect(end.text).toContain("pulumi state delete");
      expect(await project.instances()).toHaveLength(1);
    }
    await host.exec(["rm", "/var/lib/vgpu/store.json"]);
    expect((await project.refresh()).text).toContain("store_mismatch");
    expect(await project.instances()).toHaveLength(1);
    expect((await host.writes()).length).toBe(writes);
    const machine = (await host.exec(["cat", "/etc/machine-id"])).stdout.trim();
    await host.exec(["/bin/sh", "-c", "cat > /var/lib/vgpu/store.json"], {
      input: JSON.stringify({ version: 1, storeId: real.trim(), machineId: machine }),
    });
    await host.exec(["/bin/sh", "-c", "cat > /etc/vgpu/store-id"], { input: real });
    expect((await project.destroy()).code).toBe(0);
  });

  test("R-29 two copies of one stack: the second learns the owner of the VM, and gets it only with adopt, after the first has refreshed", async ({
    host,
    newProject,
    qemus,
  }) => {
    const program = programFor(host, { name: "twice" });
    const first = await newProject(program);
    const second = await newProject(program);
    expect((await first.up()).code).toBe(0);
    expect((await first.refresh()).code).toBe(0);
    const refused = await second.up();
    expect(refused.code).not.toBe(0);
    expect(refused.text).toMatch(/already_exists|owned_by_other/);
    expect(refused.text).toContain("adopt: true");
    expect(await second.instances()).toEqual([]);
    expect((await first.up()).text).toContain("2 unchanged");

    second.write(programFor(host, { name: "twice", args: { adopt: true } }));
    const adopted = await second.up();
    expect(adopted.code, adopted.text).toBe(0);
    expect(await qemus("twice")).toHaveLength(1);
    const late = await first.refresh();
    expect(late.code).not.toBe(0);
    expect(late.text).toContain("owned_by_other");
    // What the first state named is gone; its destroy touches nothing.
    expect((await first.destroy()).code).toBe(0);
    expect(await qemus("twice")).toHaveLength(1);
    expect((await second.destroy()).code).toBe(0);
    expect(await qemus("twice")).toEqual([]);
  });

  test("R-29 two colleagues with states of their own and equal owner texts: the second gets nothing of the first's VM, and its destroy deletes nothing", {
    timeout: 240_000,
  }, async ({ host, newProject, qemus }) => {
    const program = programFor(host, { name: "shared" });
    const first = await newProject(program);
    const second = await newProject(program);
    expect((await first.up()).code).toBe(0);
    const [made] = await first.instances();
    const before = await host.readFile("/var/lib/vgpu/instances/shared/record.json");
    const [qemu] = await qemus("shared");
    const writes = (await host.writes()).length;

    const refused = await second.up();
    expect(refused.code, refused.text).not.toBe(0);
    expect(refused.text).toContain("already_exists");
    // Who, when and from where.
    expect(refused.text).toContain(String(made?.outputs.ownerId));
    expect(refused.text).toContain(JSON.parse(before).createdAt);
    expect(refused.text).toContain(first.folder);
    expect(refused.text).toContain("adopt: true");
    expect(refused.text).toContain("VGPU_ADOPT=shared");
    expect(await second.instances()).toEqual([]);
    expect((await second.destroy()).code).toBe(0);
    expect(await host.readFile("/var/lib/vgpu/instances/shared/record.json")).toBe(before);
    expect(await qemus("shared")).toEqual([qemu]);
    expect((await host.writes()).length).toBe(writes);
    expect((await first.up()).text).toContain("2 unchanged");

    const adopted = await second.up("-c", "vgpu:adopt=other, shared");
    expect(adopted.code, adopted.text).toBe(0);
    expect(adopted.text).toContain("was adopted");
    expect(await qemus("shared")).toEqual([qemu]);
    first.write(programFor(host, { name: "shared", args: { shutdownTimeout: "2s" } }));
    const late = await first.up();
    expect(late.text).toContain("owned_by_other");
    expect((await first.refresh()).text).toContain("owned_by_other");
    expect((await first.destroy()).code).toBe(0);
    expect(await qemus("shared")).toEqual([qemu]);
    expect((await second.destroy()).code).toBe(0);
    expect(await qemus("shared")).toEqual([]);
  });

  test("R-29 an adopt: true that was left in both programs takes nothing back by an update", {
    timeout: 240_000,
  }, async ({ host, newProject, qemus }) => {
    const adopting = (shutdownTimeout: string) =>
      programFor(host, { name: "pulled", args: { adopt: true, shutdownTimeout } });
    const first = await newProject(adopting("1s"));
    const second = await newProject(adopting("1s"));
    expect((await first.up()).code).toBe(0);
    expect((await second.up()).code).toBe(0);
    first.write(adopting("2s"));
    const late = await first.up();
    expect(late.code).not.toBe(0);
    expect(late.text).toContain("owned_by_other");
    second.write(adopting("3s"));
    expect((await second.up()).code).toBe(0);
    expect((await second.destroy()).code).toBe(0);
    expect(await qemus("pulled")).toEqual([]);
  });

  test("R-29 what an up made whose state was lost is taken over from the same place and brought to what is asked now", {
    timeout: 240_000,
  }, async ({ host, newProject, qemus }) => {
    const shape = (vcpus: number) => programFor(host, { name: "unsaved", args: { vcpus } });
    const project = await newProject(shape(1));
    expect((await project.up()).code).toBe(0);
    expect((await project.pulumi("stack", "rm", "--yes", "--force", "--preserve-config")).code).toBe(0);
    await project.init();
    project.write(shape(2));
    const up = await project.up();
    expect(up.code, up.text).toBe(0);
    expect(up.text).toContain("taken over");
    expect(JSON.parse(await host.readFile("/var/lib/vgpu/instances/unsaved/record.json")).spec.vcpus).toBe(2);
    expect(await qemus("unsaved")).toHaveLength(1);
    expect((await project.destroy()).code).toBe(0);
    expect(await qemus("unsaved")).toEqual([]);
  });

  test("R-19 an instance of another stack is not touched, and its owner is named", async ({ host, newProject }) => {
    const first = await newProject(programFor(host, { name: "mine" }));
    const other = await newProject(programFor(host, { name: "mine" }), { stack: "prod" });
    expect((await first.up()).code).toBe(0);
    const refused = await other.up();
    expect(refused.text).toContain("owned_by_other");
    expect(refused.text).toContain("urn:pulumi:dev::e2e::");
    expect(await other.instances()).toEqual([]);
    expect((await first.destroy()).code).toBe(0);
  });

  test("R-31 a renamed resource keeps its VM with an alias, and without one is refused", async ({
    host,
    newProject,
    qemus,
  }) => {
    const project = await newProject(programFor(host, { name: "old", args: { name: "renamed" } }));
    expect((await project.up()).code).toBe(0);
    const [before] = await project.instances();

    project.write(programFor(host, { name: "new", args: { name: "renamed" } }));
    const refused = await project.up();
    expect(refused.code).not.toBe(0);
    expect(refused.text).toMatch(/owned_by_other|already_exists/);
    expect(await qemus("renamed")).toHaveLength(1);

    project.write(programFor(host, { name: "new", args: { name: "renamed" }, opts: { aliases: [{ name: "old" }] } }));
    const renamed = await project.up();
    expect(renamed.code, renamed.text).toBe(0);
    const [after] = await project.instances();
    expect(after?.outputs).toMatchObject({
      uuid: before?.outputs.uuid,
      incarnation: before?.outputs.incarnation,
      state: "running",
    });
    expect(after?.outputs.ownerId).toContain("VgpuInstance::new");
    expect((await project.destroy()).code).toBe(0);
    expect(await qemus("renamed")).toEqual([]);
  });
});
