// Faults that are built into the product one at a time: each breaks one rule, and some test must notice. A text that is to be replaced
// must be in its file exactly once, so that a mutation cannot quietly miss when the product changes.

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are pieces of source text
import { MDEV_MUTATIONS } from "./mdev.mjs";

const edit = (file, find, replace) => ({ file: `provider/host/${file}`, find, replace });
const one = (name, file, find, replace, first) => ({ name, edits: [edit(file, find, replace)], first });

// Where a fault is looked for first, when the histories do not come by it.
const INSTALL = ["test/crash/install.test.ts"];
const UNINSTALL = ["test/unit/host/verbs/uninstall.test.ts"];
const WITNESS = ["test/unit/host/store/witness.test.ts"];
const INTERLEAVE = ["test/crash/interleave.test.ts"];
const WIRE = ["test/integration/ssh/run.test.ts"];
const power = (scenario) => ["test/crash/power.test.ts", "-t", scenario];

const VENDOR = "devices/vendor-vfio/assign.ts";

export const MUTATIONS = [
  one(
    "skip the guard",
    "claims/release.ts",
    "framework.reusesDevices ? await askOthers(host, release.vf, release.instance) : undefined",
    "undefined as { dropped: string | undefined } | undefined",
  ),
  one("ignore unreadable records", "store/records.ts", "if (broken.length > 0) {", "if (broken.length > 1e9) {"),
  one(
    "reconcile ignores unreadable records",
    "verbs/reconcile.ts",
    "broken.length === 0 && found !== undefined",
    "found !== undefined",
  ),
  one("release before exit", "claims/verdict.ts", 'if (own.answer !== "dead")', 'if (own.answer === "never")'),
  {
    name: "save after write",
    edits: [
      edit(
        "claims/allocate.ts",
        "await saveRecord(host, { ...record, phase: atLeastClaimed(record), claim, vmm: null })",
        "{ ...record, phase: atLeastClaimed(record), claim, vmm: null }",
      ),
      edit(
        "claims/allocate.ts",
        "if (end.done) return chosen.record",
        "if (end.done) return saveRecord(host, chosen.record)",
      ),
    ],
  },
  one(
    "trust the exit status when clearing",
    "devices/vendor-vfio/clear.ts",
    'if (after.kind === "type" && after.typeId === 0) return',
    "if (end.accepted) return",
  ),
  one(
    "trust the exit status when typing",
    VENDOR,
    'if (!isOthers && after.kind === "type" && after.typeId === typeId) return { done: true };',
    'if (end.accepted) return { done: true };\n  if (after.kind === "type" && after.typeId === typeId) return failed("refused", "it said no");',
  ),
  one("what is impossible is asked after the stop", "verbs/create-or-update.ts", "  if (problem) throw problem;\n", ""),
  one(
    "what a card has offered is forgotten",
    "devices/remembered-profiles.ts",
    "[...new Set([...known.names, ...now.names])].sort()",
    "now.names",
  ),
  one(
    "a card in use shows all that it offers",
    "devices/remembered-profiles.ts",
    "|| vf.typeId === 0)",
    "|| vf.typeId >= 0)",
  ),
  one("the short name of a profile is another profile", "../protocol/inputs.ts", "    isSame: isSameProfile,\n", ""),
  one(
    "ownership by a tool's words",
    VENDOR,
    "const isOthers = !end.accepted &&",
    'const isOthers = end.said === "EPERM" &&',
  ),
  one(
    "the first other claimant decides",
    "claims/verdict.ts",
    "if (live) return",
    "if (live && live === claimants[0]) return",
  ),
  one(
    "a unit in an unknown state is dead",
    "vmm/liveness.ts",
    '!["inactive", "failed"].includes(unit.active)',
    '["active", "activating", "deactivating", "reloading"].includes(unit.active)',
  ),
  one(
    "any process of the unit is the VM's",
    "vmm/boot.ts",
    "await host.units.mainPid(unitName(id))",
    "(await host.units.members(unitName(id)))?.pids[0] ?? 0",
  ),
  one("not booting alone puts into quarantine", "devices/quarantine.ts", " && failures.some((f) => !f.unproven)", ""),
  one(
    "the first name that fits is the profile",
    "devices/profiles.ts",
    "return new Set(short.map(({ name }) => name)).size === 1 ? short[0] : undefined;",
    "return short[0];",
  ),
  one(
    "no read-back of 0",
    "devices/vendor-vfio/clear.ts",
    'if (after.kind === "type" && after.typeId === 0) return',
    "if (after) return",
  ),
  one(
    "no read-back of the type",
    VENDOR,
    'if (!isOthers && after.kind === "type" && after.typeId === typeId) return',
    "if (after) return",
  ),
  one("pid without start time", "vmm/liveness.ts", 'if (leader.startTime !== vmm.startTime) return "not ours";', ""),
  one("leader only, in liveness", "vmm/liveness.ts", "of (await host.processes.tasks(vmm.pid)) ?? []", "of [vmm.pid]"),
  one("leader only, among handles", "devices/handles.ts", "of (await host.processes.tasks(pid)) ?? []", "of [pid]"),
  one(
    "prefix match of claims",
    "claims/release.ts",
    "if (id === instance || claim?.vf !== vf ||",
    "if (id === instance || claim?.vf.slice(0, 10) !== vf.slice(0, 10) ||",
  ),
  one(
    "forget the folder's fsync",
    "store/files.ts",
    "    await files.rename(part, path);\n    await files.sync(dirname(path));",
    "    await files.rename(part, path);",
  ),
  one("forget the file's fsync", "store/files.ts", "    await files.sync(part);\n", ""),
  one("forget the fsync of a new folder's parent", "store/files.ts", "  await files.sync(dirname(path));\n}", "}"),
  one(
    "forget the fsync of a parent when the folder is there",
    "store/files.ts",
    '    if (errno(error) !== "EEXIST") throw',
    '    if (errno(error) === "EEXIST") return;\n    throw',
  ),
  one(
    "forget the fsync of a removed folder's name",
    "store/records.ts",
    "  await files.sync(INSTANCES);\n  await removeTree(",
    "  await removeTree(",
    power("delete, running"),
  ),
  one(
    "forget the fsync between a note and its base",
    "vmm/disk.ts",
    '    await remove(unused.filter((name) => !name.endsWith(".img")));\n    await host.files.sync(IMAGES);',
    '    await remove(unused.filter((name) => !name.endsWith(".img")));',
    power("delete, stopped"),
  ),
  one(
    "forget the fsync of a new base's name",
    "vmm/disk.ts",
    "  await host.files.rename(file, baseFile(sha256));\n  await host.files.sync(IMAGES);",
    "  await host.files.rename(file, baseFile(sha256));",
    power("create, with an image"),
  ),
  one(
    "forget the fsync of a disk",
    "vmm/disk.ts",
    "  await host.files.sync(overlay);\n",
    "",
    power("create, with an image"),
  ),
  one(
    "forget the fsync of the current version",
    "verbs/install.ts",
    "    await files.rename(part, link);\n    await files.sync(PROGRAM);",
    "    await files.rename(part, link);",
    INSTALL,
  ),
  one(
    "no boot id in release",
    "store/claims.ts",
    "return claim.bootId === host.bootId && machineId === host.machineId;",
    "return machineId === host.machineId;",
  ),
  one(
    "no type match in release",
    "claims/verdict.ts",
    "if (now.typeId !== typeId) return",
    "if (now.typeId === -1) return",
  ),
  one(
    "no mark match in release",
    "claims/verdict.ts",
    "if (mark?.instance !== instance || mark.typeId !== typeId)",
    "if (mark?.typeId === -1)",
  ),
  one(
    "host lock too short",
    "claims/allocate.ts",
    "await under(take(host, HOST_LOCK, record.id), () => choose(host, current, search))",
    "await under(take(host, HOST_LOCK, record.id), async () => {}).then(() => choose(host, current, search))",
    INTERLEAVE,
  ),
  {
    name: "mark after write",
    edits: [
      edit(VENDOR, "  await writeMark(host, vf, record.id, typeId);\n", ""),
      edit(
        VENDOR,
        "  const after = await readType(host, vf);\n",
        "  await writeMark(host, vf, record.id, typeId);\n  const after = await readType(host, vf);\n",
      ),
    ],
  },
  one(
    "claim dropped before its mark",
    "claims/release.ts",
    "        await frameworkOf(release).removeMark(host, release, release.instance);\n        return forget();",
    "        const forgotten = await forget();\n        await frameworkOf(release).removeMark(host, release, release.instance);\n        return forgotten;",
  ),
  one("mark removed whoever it names", "store/mark-folder.ts", "?.instance === instance)", "?.instance !== undefined)"),
  one("mark of a dead write kept", VENDOR, "  await removeMark(host, vf, record.id);\n", ""),
  one(
    "a create clears what somebody else typed",
    "claims/verdict.ts",
    "if (now.typeId !== 0 && mark?.typeId !== now.typeId)",
    "if (now.typeId === -1)",
  ),
  one(
    "a create clears what another instance may need",
    "claims/verdict.ts",
    "if (blocked !== undefined) return",
    'if (blocked === "") return',
  ),
  one(
    "making room clears what another instance claims",
    "claims/verdict.ts",
    "if (claimedBy !== undefined) return inUse",
    'if (claimedBy === "") return inUse',
  ),
  one(
    "a person clears what is claimed",
    "claims/verdict.ts",
    "if (claimedBy !== undefined) {",
    'if (claimedBy === "") {',
  ),
  one(
    "a person clears what was typed by us",
    "claims/verdict.ts",
    'if (mark?.typeId !== now.typeId) return { act: "clear" };',
    'if (mark?.typeId !== -1) return { act: "clear" };',
  ),
  one(
    "others' marks do not hold back",
    "devices/blocked.ts",
    'return liveness.answer === "dead" ? undefined :',
    "return liveness ? undefined :",
  ),
  one(
    "old incarnation accepted by delete",
    "verbs/delete.ts",
    "incarnation !== undefined && record.incarnation !== incarnation",
    'incarnation === ""',
  ),
  one(
    "old incarnation accepted by start and stop",
    "instance/require.ts",
    "if (meant === undefined || meant === incarnation) return;",
    'if (meant !== "") return;',
  ),
  one(
    "old incarnation accepted by update",
    "instance/admission.ts",
    'if (asker.verb === "update" && !same && !asker.adopt) {',
    'if (asker.incarnation === "") {',
  ),
  one(
    "missing store is empty",
    "store/identity.ts",
    "if (text === undefined && id === undefined) return undefined;",
    "if (text === undefined || id === undefined) return undefined;",
  ),
  one(
    "unreadable process ignored",
    "devices/handles.ts",
    "      unreadable.push(`pid ${pid}: ${textOf(error)}`);\n",
    "",
  ),
  one(
    "no VF lock in reconcile",
    "claims/release.ts",
    "return await take(host, vfLock(vf), instance,",
    'return await take(host, host.verb === "reconcile" ? `not-${vfLock(vf)}` : vfLock(vf), instance,',
  ),
  one(
    "no VF lock in release",
    "claims/release.ts",
    "return await take(host, vfLock(vf), instance,",
    "return await take(host, `not-${vfLock(vf)}`, instance,",
  ),
  one(
    "no instance lock in reconcile",
    "verbs/reconcile.ts",
    "  await withFreeLock(host, instanceLock(id), id, async (lock) => {",
    "  if (await host.locks.holder(instanceLock(id))) return;\n  await withFreeLock(host, `not-${instanceLock(id)}`, id, async (lock) => {",
    INTERLEAVE,
  ),
  one(
    "no instance lock in the sweep",
    "claims/sweep.ts",
    "  const lock = await host.locks.take(instanceLock(instance), { verb: host.verb, instance }, 0);\n  if (!lock) return;",
    "  const lock = await host.locks.take(`not-${instanceLock(instance)}`, { verb: host.verb, instance }, 0);\n  if (!lock) return;",
    INTERLEAVE,
  ),
  one(
    "reconcile records a process before it has its device",
    "instance/repair-running.ts",
    "if (!(await hasOpen(host, record, claim, [vmm.pid]))) return",
    "if (vmm.pid === 0) return",
  ),
  one(
    "a device is marked again though its VM does not have it open",
    "instance/repair-running.ts",
    "if (await hasOpen(host, record, claim, pids)) await",
    "if (pids.length >= 0) await",
  ),
  one(
    "reconcile does not record a process that runs",
    "instance/repair-running.ts",
    "(isIdentified(host, record) && !(await isUnmarked(host, record, record.claim)))",
    "!(await isUnmarked(host, record, record.claim))",
  ),
  {
    name: "reconcile does not read the record again",
    first: INTERLEAVE,
    edits: [
      edit(
        "verbs/reconcile.ts",
        "/** One pass over the host",
        "let old = new Map<string, Found>();\n/** One pass over the host",
      ),
      edit(
        "verbs/reconcile.ts",
        '  const broken = records.filter((found) => found.kind === "broken");',
        '  old = new Map(records.map((found) => [found.id, found]));\n  const broken = records.filter((found) => found.kind === "broken");',
      ),
      edit(
        "verbs/reconcile.ts",
        "const found = await findRecord(host, id);",
        "const found = old.get(id) as Found | undefined;",
      ),
    ],
  },
  one(
    "reconcile starts an incomplete record",
    "vmm/restart-policy.ts",
    'phase === "complete" && !deleting && !retained;',
    "phase && !deleting && !retained;",
  ),
  one(
    "reconcile starts what is being deleted",
    "vmm/restart-policy.ts",
    'phase === "complete" && !deleting && !retained;',
    'phase === "complete" && !retained;',
  ),
  one(
    "starting child does not keep the lock",
    "vmm/boot.ts",
    "await host.units.start(vmUnit(id, host.program, command), lock)",
    'await host.units.start(vmUnit(id, host.program, command), (await host.locks.take(`not-${lock.name}`, { verb: "", instance: id }, 0)) ?? lock)',
  ),
  one(
    "writing child does not keep the lock, when it types",
    VENDOR,
    "await host.driver.write(typeFileOf(vf), String(typeId), lock,",
    'await host.driver.write(typeFileOf(vf), String(typeId), (await host.locks.take(`not-${lock.name}`, { verb: "", instance: record.id }, 0)) ?? lock,',
  ),
  one(
    "a write that hangs is a failed write",
    VENDOR,
    "if (!end.ended) throw hanging(`type ${typeId} to ${vf}`, end.pid);",
    'if (!end.ended) {\n    await removeMark(host, vf, record.id);\n    return failed("refused", "it hangs");\n  }',
  ),
  one(
    "stuck writers are not looked at",
    "claims/verdict.ts",
    "if (handles.writers.length > 0)",
    "if (handles.writers.length > 1e9)",
  ),
  one(
    "a start that is not answered is rolled back",
    "instance/rollback.ts",
    "    if (failure instanceof StartUnanswered) throw failure;\n",
    "",
  ),
  one(
    "the lock is no witness",
    "vmm/liveness.ts",
    'if (lock && "verb" in lock) return',
    'if (lock && "verb" in lock && lock.verb === "") return',
  ),
  one(
    "a held lock is life",
    "vmm/liveness.ts",
    'if (lock && "verb" in lock) return ambiguous(',
    'if (lock && "verb" in lock) return live(',
  ),
  one("a recent claim is no witness", "vmm/liveness.ts", "  if (recent)\n", "  if (recent && process === undefined)\n"),
  one("a queued unit is no witness", "vmm/liveness.ts", "=> unit.job || !", "=> !"),
  one(
    "unreadable witnesses are dead",
    "vmm/liveness.ts",
    'if (typeof witness === "object" && "unreadable" in witness)',
    "if (witness === null)",
  ),
  one(
    "no look at handles before the write",
    "devices/vendor-vfio/clear.ts",
    "if (use !== undefined) return",
    'if (use === "") return',
  ),
  one(
    "no look at type and mark before the write",
    "devices/vendor-vfio/clear.ts",
    "if (!same) return",
    "if (same === null) return",
  ),
  one(
    "a later try begins with the write",
    "claims/release.ts",
    "    for (;;) {\n      const attempt = await releaseOnce(host, release, lock);",
    `    let attempt: Attempt | undefined;
    for (;;) {
      if (attempt) {
        await host.driver.write(\`/sys/bus/pci/devices/\${release.vf}/nvidia/current_vgpu_type\`, "0", lock, 8_000);
        const now = await frameworkOf(release).readType(host, release);
        if (now.kind === "type" && now.typeId === 0) attempt = { end: "released", cleared: 0 };
      } else attempt = await releaseOnce(host, release, lock);`,
  ),
  one(
    "delete forgets what is only marked",
    "verbs/delete.ts",
    "    await releaseAllMarked(host, id);\n    await removeFiles(host, id);\n  } catch (cause) {\n    throw await cleanupPending",
    "    await removeFiles(host, id);\n  } catch (cause) {\n    throw await cleanupPending",
  ),
  one(
    "kill at once",
    "vmm/stop.ts",
    "await host.clock.sleep(await tooYoungFor(host, id));\n",
    "await tooYoungFor(host, id);\n",
  ),
  one(
    "unreadable type is 0",
    "devices/vendor-vfio/discovery.ts",
    'return { kind: "unreadable", reason: textOf(error) };',
    'return { kind: "type", typeId: 0 };',
  ),
  one("claims nothing for nobody", "claims/allocate.ts", "if (!host.requesterAlive()) {", 'if (host.verb === "") {'),
  ...MDEV_MUTATIONS,
  one(
    "take-over: of what was confirmed",
    "instance/admission.ts",
    "if (!requester.confirmed) return",
    "if (requester.incarnation) return",
  ),
  one(
    "take-over: from another place",
    "instance/admission.ts",
    'requester.place === "" || requester.place !== asker.place',
    'requester.place === "elsewhere"',
  ),
  one(
    "take-over: by a verb that comes late",
    "instance/admission.ts",
    "  if (asker.foundConfirmed !== there.incarnation) return undefined;\n",
    "",
  ),
  one(
    "take-over: between two who name no place",
    "instance/admission.ts",
    'requester.place === "" || requester.place !== asker.place',
    "requester.place !== (asker.place ?? requester.place)",
  ),
  one(
    "take-over: of what a state has named",
    "instance/admission.ts",
    "  if (there.acknowledged) return undefined;\n",
    "",
  ),
  one(
    "take-over: of what an older program made since",
    "instance/admission.ts",
    "return requester?.incarnation === incarnation ? requester : undefined;",
    'return incarnation === "" ? undefined : (requester ?? undefined);',
  ),
  one(
    "take-over: nothing is ever confirmed",
    "instance/confirmation.ts",
    "if (await host.confirmed({ instance: view })) await noteConfirmed(host, asker);",
    "await host.confirmed({ instance: view });",
  ),
  one(
    "take-over: what failed counts as not received",
    "instance/confirmation.ts",
    "    await noteConfirmed(host, asker).catch(() => {});\n",
    "",
  ),
  one(
    "take-over: confirmed without the lock",
    "verbs/create-or-update.ts",
    "  return withLock(host, instanceLock(asker.instance), asker.instance, (lock) =>\n    confirmedWith(host, asker, () => createOrUpdateLocked(host, asker, lock)),\n  );",
    "  return confirmedWith(host, asker, () =>\n    withLock(host, instanceLock(asker.instance), asker.instance, (lock) => createOrUpdateLocked(host, asker, lock)),\n  );",
  ),
  one(
    "take-over: a start by hand counts as a state's",
    "instance/confirmation.ts",
    "if (byHand && there) return",
    'if (byHand && there && verb === "create") return',
  ),
  {
    name: "take-over: confirmed for an engine that has gone",
    first: WIRE,
    edits: [
      {
        file: "provider/ssh/run.ts",
        find: "if (!(await (options.requesterLives?.() ?? true))) return void stdin.end();",
        replace: "",
      },
    ],
  },
  one(
    "no lock in install",
    "verbs/install.ts",
    'return withInstallLock(system.locks, "install", () => installAlone(system, program, makeStore));',
    "return installAlone(system, program, makeStore);",
    INSTALL,
  ),
  one(
    "an uninstall takes no install lock",
    "verbs/uninstall.ts",
    "return withInstallLock(host.locks, host.verb, async () => {",
    "return (async (work: () => Promise<{ uninstalled: true }>) => work())(async () => {",
    UNINSTALL,
  ),
  one(
    "an uninstall takes no host lock",
    "verbs/uninstall.ts",
    'return withLock(host, HOST_LOCK, "", async () => {',
    "return (async (work: () => Promise<{ uninstalled: true }>) => work())(async () => {",
    UNINSTALL,
  ),
  one(
    "an uninstall closes the store last",
    "verbs/uninstall.ts",
    "      await fence(host, identity);\n      await removeAll(host);",
    "      await removeAll(host);\n      await fence(host, undefined);",
    UNINSTALL,
  ),
  one(
    "an uninstall removes what came in after its check",
    "store/witness.ts",
    '["ENOTEMPTY", "EEXIST", "EBUSY"].includes(errno(error))) return files.list(INSTANCES)',
    '["ENOTEMPTY", "EEXIST", "EBUSY"].includes(errno(error))) return []',
    UNINSTALL,
  ),
  one(
    "a record makes the store's folder again",
    "store/records.ts",
    "  try {\n    await files.mkdir(folder);",
    '  for (const path of ["/var/lib/vgpu", INSTANCES]) await files.mkdir(path).catch(() => {});\n  try {\n    await files.mkdir(folder);',
    UNINSTALL,
  ),
  one(
    "a new record does not ask for the witness",
    "store/records.ts",
    "    await requireSettled(host);\n",
    "",
    WITNESS,
  ),
  one(
    "a list does not ask for the witness",
    "store/witness.ts",
    "if (there !== storeId) throw strangeFolder(storeId, whyStrange(there));",
    "",
    WITNESS,
  ),
  one(
    "a missing witness is made again",
    "instance/complete-store.ts",
    "if (witnessed) return missing;",
    "if (witnessed) return undefined;",
    WITNESS,
  ),
  one(
    "an empty folder is the older store's",
    "instance/complete-store.ts",
    "return signs.length > 0 ?",
    "return signs.length > 1e9 ?",
    WITNESS,
  ),
  one(
    "a claim is made in a store that is being removed",
    "claims/allocate.ts",
    "  await requireSettled(host);\n",
    "",
    WITNESS,
  ),
  one(
    "a power cut brings a finished making file back",
    "store/identity.ts",
    "  await syncIfThere(files, SETTINGS);\n",
    "",
    ["test/crash/uninstall.test.ts"],
  ),
  one(
    "forget the fsync of what a killed install has made",
    "verbs/install.ts",
    "  await files.sync(INSTANCES);\n",
    "",
    ["test/crash/uninstall.test.ts"],
  ),
  one(
    "a device elsewhere is held back for good",
    "claims/sweep.ts",
    "isCurrent(host, claim, machineId) && (await runsAsRecorded(host, vmm))",
    "isCurrent(host, claim, machineId) && (await runsAsRecorded(host, null))",
  ),
  one(
    "a record alone says where a VM lives",
    "devices/blocked.ts",
    "if (elsewhere && (await runsAsRecorded(host, vmm))) return undefined;",
    "if (elsewhere) return undefined;",
  ),
];
