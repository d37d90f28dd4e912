// The faults of mdev hosts; see mutations.mjs.

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are pieces of source text

const one = (name, file, find, replace) => ({
  name: `mdev: ${name}`,
  edits: [{ file: `provider/host/${file}`, find, replace }],
});
const MARK = "  await writeMark(host, device);\n";
const CREATE =
  "  const end = await host.driver.write(createFile(vf, typeId), uuid, lock, host.settings.writeDeadlineMs);\n";

export const MDEV_MUTATIONS = [
  one("mark after create", "devices/mdev/assign.ts", `${MARK}${CREATE}`, `${CREATE}${MARK}`),
  one(
    "trust the exit status when making",
    "devices/mdev/assign.ts",
    'if (after.kind === "type" && after.typeId === typeId && after.leaving === undefined) return',
    "if (end.accepted) return",
  ),
  one("mark of a refused create kept", "devices/mdev/assign.ts", "  await mdevMarks.remove(host, uuid, id);\n", ""),
  one(
    "trust the exit status when removing",
    "devices/mdev/clear.ts",
    'if (after.kind === "gone" || (after.kind === "type" && after.typeId === 0)) return',
    "if (end.accepted) return",
  ),
  one(
    "removed while it is open",
    "devices/mdev/clear.ts",
    'if (use !== undefined) return { kind: "in use", reason: use };',
    "",
  ),
  one(
    "a create that hangs is not looked for",
    "devices/mdev/clear.ts",
    "written: [createFile(vf, typeId), ",
    "written: [",
  ),
  one("other records are asked", "devices/mdev/index.ts", "reusesDevices: false", "reusesDevices: true"),
  one(
    "a claimed one without its mark is not ours",
    "devices/mdev/marks.ts",
    "(await mdevMarks.read(host, mdevUuid)) ??",
    '(await mdevMarks.read(host, mdevUuid)) ?? { instance: "", typeId, bootId: "" } ??',
  ),
  one(
    "mark kept after the release",
    "devices/mdev/index.ts",
    "mdevMarks.remove(host, mdevUuid, instance)",
    "Promise.resolve()",
  ),
  one(
    "one whose type is not told is gone",
    "devices/mdev/find.ts",
    "if ((await mdevUuids(host)).includes(uuid)) return",
    'if (uuid === "") return',
  ),
  one(
    "young orphans are swept",
    "devices/mdev/sweep.ts",
    "if (mark && (await isRecent(host, mark)))",
    "if (mark && mark.uptimeMs < 0)",
  ),
  one(
    "orphans on somebody else's device are swept",
    "devices/mdev/sweep.ts",
    "if (there && there.device !== vf)",
    'if (there && there.device === "")',
  ),
  one(
    "foreign ones are not reported",
    "devices/mdev/foreign.ts",
    'if (!mark) note(about, "foreign"',
    'if (mark) note(about, "foreign"',
  ),
  one(
    "what the bus does not list is gone",
    "devices/mdev/find.ts",
    "if (await isCarried(host, uuid, device)) return",
    'if (uuid === "") return',
  ),
  one(
    "the device of one that is being removed is free",
    "devices/mdev/discovery.ts",
    "carried.filter((name) => !listed.has(name)",
    'carried.filter((name) => name === ""',
  ),
  one(
    "who has one that is being removed is not found",
    "devices/mdev/clear.ts",
    "folders: [mdevPath(uuid), carriedPath(vf, uuid)]",
    "folders: [mdevPath(uuid)]",
  ),
  one(
    "a VM is started on one that is being removed",
    "instance/power-state.ts",
    "now.typeId === claim.typeId && now.leaving === undefined",
    "now.typeId === claim.typeId",
  ),
  one(
    "a bus that cannot be listed is none",
    "devices/mdev/discovery.ts",
    'throw new VgpuError("discovery_failed", `The mdev bus',
    'return [];\n    throw new VgpuError("discovery_failed", `The mdev bus',
  ),
  one(
    "promised room is free",
    "devices/placement.ts",
    "return pending.reduce((left, slots) => left - slots,",
    "return pending.reduce((left) => left,",
  ),
];
