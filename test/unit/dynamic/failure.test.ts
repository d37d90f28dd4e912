import { expect, it } from "vitest";
import { expected, KeptError } from "../../../provider/dynamic/failure";
import { describe } from "../../../provider/protocol/describe";
import { errorShape } from "../../../provider/protocol/error-shape";
import { fromShape, toShape, VgpuError } from "../../../provider/protocol/errors";

const busy = new VgpuError("device_busy", "0000:3b:00.4 of vm-1 is in use: pid 17 (/dev/vfio/12).");
const crashed = new VgpuError("vmm_failed", "The VM of vm-1 did not boot: no such file.");

/** Failures as hosts report them, older ones too, and the whole of what a person reads. */
const failures: Array<[string, VgpuError, string]> = [
  [
    "a delete that is pending",
    new VgpuError("vgpu_cleanup_pending", "on gpu-1: The delete is not finished: 0000:3b:00.4 is still assigned.", {
      cause: busy,
      hint: "Remove the cause, then retry the delete; reconcile retries the release too.",
    }),
    "vgpu_cleanup_pending: on gpu-1: The delete is not finished: 0000:3b:00.4 is still assigned. (cause: device_busy: 0000:3b:00.4 of vm-1 is in use: pid 17 (/dev/vfio/12).) Remove the cause, then retry the delete; reconcile retries the release too.",
  ],
  [
    "a create that is kept, from a host that puts the cause into the message too",
    new VgpuError(
      "vgpu_cleanup_pending",
      `on gpu-1: ${crashed.message} It could not be taken back: ${busy.message} Instance vm-1 keeps what it claims: delete it to retry.`,
      { cause: crashed, hint: "Delete it." },
    ),
    "vgpu_cleanup_pending: on gpu-1: The VM of vm-1 did not boot: no such file. It could not be taken back: 0000:3b:00.4 of vm-1 is in use: pid 17 (/dev/vfio/12). Instance vm-1 keeps what it claims: delete it to retry. Delete it.",
  ],
  [
    "an error that wraps one of its own words",
    new VgpuError("vgpu_cleanup_pending", "vm-1 is not deleted.", {
      cause: new VgpuError("vgpu_cleanup_pending", "vm-1 is not deleted.", { cause: busy }),
      hint: "",
    }),
    "vgpu_cleanup_pending: vm-1 is not deleted. (cause: device_busy: 0000:3b:00.4 of vm-1 is in use: pid 17 (/dev/vfio/12).)",
  ],
  [
    "sentences in a sentence",
    new VgpuError("liveness_ambiguous", "vm-2 claims 0000:3b:00.4 too.: its lock is held..", { hint: "Wait" }),
    "liveness_ambiguous: vm-2 claims 0000:3b:00.4 too: its lock is held. Wait.",
  ],
  [
    "a result that is unknown",
    new VgpuError(
      "result_unknown",
      "The result of create of instance 'vm-1' on gpu-1 is unknown: the connection ended.",
    ),
    "result_unknown: The result of create of instance 'vm-1' on gpu-1 is unknown: the connection ended. Run the same command again: it finds what was done.",
  ],
  [
    "an error of the system",
    new VgpuError("store_failed", "It is full", { cause: new Error("ENOSPC"), hint: "" }),
    "store_failed: It is full. (cause: internal: ENOSPC.)",
  ],
];

it.each(failures)("prints each sentence of %s once", (_what, error, text) => {
  expect(describe(toShape(error))).toBe(text);
  expect(expected(error)).toMatchObject({ message: text, stack: "" });
  const kept = new KeptError(error, "gpu-1/vm-1", {});
  expect(kept).toMatchObject({ message: text, reasons: [text] });
  // What went over the wire reads the same.
  expect(describe(errorShape.parse(JSON.parse(JSON.stringify(toShape(error)))))).toBe(text);
});

it("a cause is an error in the program and a shape on the wire", () => {
  const error = new VgpuError("vgpu_cleanup_pending", "not released", { cause: busy });
  expect(error.cause).toBe(busy);
  const again = fromShape(toShape(error));
  expect(again.cause).toBeInstanceOf(VgpuError);
  expect(toShape(again)).toEqual(toShape(error));
});

it("R-25 an error of a newer release keeps its code and all of its words", () => {
  const sent = { code: "of_tomorrow", message: "It is new.", hint: "Do it.", retryable: true, details: { vf: "x" } };
  const read = errorShape.parse({ ...sent, cause: { ...sent, code: "deeper", message: "Beneath." } });
  expect(read).toMatchObject({ ...sent, code: "internal", details: { vf: "x", newerCode: "of_tomorrow" } });
  expect(describe(read)).toBe("internal (of_tomorrow): It is new. (cause: internal (deeper): Beneath.) Do it.");
});
