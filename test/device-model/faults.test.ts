import { beforeEach, expect, test } from "vitest";
import { DriverError } from "./errno";
import { Hardware } from "./hardware";
import { StoppedClock } from "./stopped-clock";

const FILE = "/sys/bus/pci/devices/0000:01:00.4/nvidia/current_vgpu_type";
const OTHER = "/sys/bus/pci/devices/0000:11:00.4/nvidia/current_vgpu_type";

let clock: StoppedClock;
let hardware: Hardware;
beforeEach(() => {
  clock = new StoppedClock();
  hardware = new Hardware({ clock });
});

async function outcome(work: Promise<unknown>): Promise<unknown> {
  try {
    return (await work) ?? "ok";
  } catch (error) {
    if (error instanceof DriverError) return error.code;
    throw error;
  }
}

test("refuses the n-th read only", async () => {
  hardware.faults.add({ on: "read", path: FILE, nth: 2, errno: "EIO" });
  expect([
    await outcome(hardware.read(FILE)),
    await outcome(hardware.read(FILE)),
    await outcome(hardware.read(FILE)),
  ]).toEqual(["0\n", "EIO", "0\n"]);
});

test("refuses writes of one value, so many times, and nothing is changed by them", async () => {
  await hardware.write(FILE, "1148");
  hardware.faults.add({ on: "write", path: FILE, value: "0", times: 2, errno: "EBUSY" });
  const results = [];
  for (let count = 0; count < 3; count++) results.push(await outcome(hardware.write(FILE, "0\n")));
  expect(results).toEqual(["EBUSY", "EBUSY", "ok"]);
});

test("a path may have wildcards, for one card or all", async () => {
  hardware.faults.add({ on: "read", path: "/sys/bus/pci/devices/0000:01:*/nvidia/*", errno: "EACCES" });
  expect(await outcome(hardware.read(FILE))).toBe("EACCES");
  expect(await outcome(hardware.read(OTHER))).toBe("0\n");
});

test("lies about a type", async () => {
  hardware.faults.add({ on: "read", path: FILE, answer: "1150" });
  await hardware.write(FILE, "1148");
  expect(await hardware.read(FILE)).toBe("1150\n");
  hardware.heal();
  expect(await hardware.read(FILE)).toBe("1148\n");
});

test("delays, and then does it", async () => {
  hardware.faults.add({ on: "write", path: FILE, delayMs: 500 });
  const writing = hardware.write(FILE, "1148");
  await clock.advance(499);
  expect(hardware.log.writes[0]?.result).toBe("pending");
  await clock.advance(1);
  await writing;
  expect(hardware.log.writes[0]).toMatchObject({ result: "ok", tookMs: 500 });
});

test("hangs until it is healed, and then does it", async () => {
  const id = hardware.faults.add({ on: "write", path: FILE, hang: true });
  const writing = hardware.write(FILE, "1148");
  await clock.advance(1_000_000);
  expect(await hardware.read(FILE)).toBe("0\n");
  hardware.faults.remove(id);
  await writing;
  expect(await hardware.read(FILE)).toBe("1148\n");
});

test("what hangs ends with its host", async () => {
  hardware.faults.add({ on: "write", path: FILE, hang: true });
  const writing = outcome(hardware.write(FILE, "1148"));
  await clock.advance(1);
  hardware.reset();
  expect(await writing).toBe("EIO");
  expect(await hardware.read(FILE)).toBe("0\n");
});

test("refuses an open", async () => {
  await hardware.write(FILE, "1148");
  hardware.faults.add({ on: "open", path: "/dev/vfio/*", errno: "EIO" });
  expect(await outcome(hardware.open("/dev/vfio/12", { pid: 1, readOnly: false }))).toBe("EIO");
});
