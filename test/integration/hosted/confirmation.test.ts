import { expect, test } from "vitest";
import { RECEIVED } from "../../../provider/protocol/messages";
import { SimHost } from "../../simhost/simhost";
import { requires } from "../../support/requirements";
import { HostProgram, incarnationOf, spec } from "./program";

/** Asks, and does something with its end of the wire once the result has come; prints what came, then how the program ended. */
const ASKS = `coproc P { exec "$1" --request -; }
exec 5>&"\${P[1]}" 6<&"\${P[0]}"
eval "exec \${P[1]}>&-"
pid=$P_PID
echo "$2" >&5
while read -r line <&6; do
  case $line in *'"type":"result"'*) echo "$line"; eval "$3";; esac
done
wait "$pid"
echo "$?"`;

requires(
  "root",
  "fuse",
  "qemu",
  "setup",
)("R-29 the requester's word that it has the result", () => {
  test("what is confirmed is saved; what is not, or too late, is not; nobody comes in between", {
    timeout: 120_000,
  }, async () => {
    await using host = await SimHost.start({ gpus: 1, vfs: 4 });
    const program = await HostProgram.on(host);
    const ask = async (instance: string, then: string, change: object = {}) => {
      const request = {
        protocol: 1,
        marker: "",
        verb: "create",
        instance,
        incarnation: incarnationOf(instance),
        owner: "org/dev",
        spec: spec(),
        adopt: false,
        place: "1".repeat(64),
        origin: "alice@desk:/vms",
        ...change,
      };
      const began = Date.now();
      const { stdout } = await host.exec(["bash", "-c", ASKS, "bash", program.launcher, JSON.stringify(request), then]);
      const lines = stdout.trim().split("\n");
      const result = JSON.parse(lines[0] ?? "{}") as { ok: boolean; error?: { code: string } };
      return { results: lines.length - 1, result, code: Number(lines.at(-1)), ms: Date.now() - began };
    };
    const requester = async (instance: string) => (await program.record(instance)).requester;

    expect(await ask("said", `echo '${RECEIVED}' >&5`)).toMatchObject({ results: 1, result: { ok: true }, code: 0 });
    expect(await requester("said")).toMatchObject({ confirmed: true, origin: "alice@desk:/vms" });

    expect(await ask("closed", "exec 5>&-")).toMatchObject({ results: 1, result: { ok: true }, code: 75 });
    expect(await requester("closed")).toMatchObject({ confirmed: false });

    // A ping is no confirmation, and a requester that says nothing is not waited for for ever. Meanwhile its instance is locked.
    const elsewhere = { place: "2".repeat(64), incarnation: "00000000-0000-4000-8000-000000000e15" };
    const [silent, second] = await Promise.all([
      ask("silent", `echo '{"type":"ping"}' >&5; touch /run/answered`),
      (async () => {
        await expect
          .poll(async () => (await host.exec(["test", "-e", "/run/answered"])).code, { timeout: 60_000 })
          .toBe(0);
        const lock = await host.exec(["flock", "-n", "/run/vgpu/lock/vm-silent", "true"]);
        return { lock: lock.code, end: await ask("silent", `echo '${RECEIVED}' >&5`, elsewhere) };
      })(),
    ]);
    expect(silent).toMatchObject({ results: 1, result: { ok: true }, code: 75 });
    expect(silent.ms).toBeGreaterThan(9_000);
    expect(silent.ms).toBeLessThan(20_000);
    expect(second).toMatchObject({ lock: 1, end: { result: { ok: true }, code: 0 } });
    expect(await requester("silent")).toMatchObject({ confirmed: true, place: elsewhere.place });

    expect(await ask("said", "exec 5>&-", elsewhere)).toMatchObject({
      result: { ok: false, error: { code: "already_exists" } },
      code: 1,
    });
    expect(await requester("said")).toMatchObject({ confirmed: true, incarnation: incarnationOf("said") });

    // One that names no place does not confirm, and is not waited for.
    const older = await ask("older", "true", { place: undefined });
    expect(older).toMatchObject({ results: 1, result: { ok: true }, code: 0 });
    expect(older.ms).toBeLessThan(9_000);
    expect(await requester("older")).toBe(null);
    await host.assertSafe();
  });
});
