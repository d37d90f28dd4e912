// Tells what a test run has left on the machine: node left-behind.mjs before|after FOLDER
// `before` writes down what is there; `after` lists what has come since and ends with 1 if there is anything: processes
// that the run started, mounts, temporary folders. FOLDER is the run's own; its folder `tmp` is what tests see as TMPDIR.
// With CI set the machine is ours alone, and whatever else is new counts too: hosts in namespaces, network links.
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 5000; // what is just ending is not left behind

const [when, folder] = process.argv.slice(2);
const alone = Boolean(process.env.CI);

/** The file's text, the folder's names or the link's target; "" or [] where it is gone or not ours to read. */
const attempt = (read, otherwise) => {
  try {
    return read();
  } catch {
    return otherwise;
  }
};
const text = (path) => attempt(() => readFileSync(path, "utf8"), "");
const names = (path) => attempt(() => readdirSync(path), []);
const target = (path) => attempt(() => readlinkSync(path), "");

/** What belongs to the run has its folder in environment, command line, working directory or, in namespaces, mounts. */
function ofRun(pid) {
  if ([`/proc/${pid}/environ`, `/proc/${pid}/cmdline`].some((file) => text(file).includes(folder))) return true;
  if (target(`/proc/${pid}/cwd`).startsWith(folder)) return true;
  if (elsewhere(pid, "mnt") && text(`/proc/${pid}/mountinfo`).includes(folder)) return true;
  return alone && elsewhere(pid, "pid");
}

function elsewhere(pid, kind) {
  const namespace = target(`/proc/${pid}/ns/${kind}`);
  return namespace !== "" && namespace !== target(`/proc/self/ns/${kind}`);
}

function ancestors() {
  const found = [];
  for (let pid = process.pid; pid > 0; ) {
    found.push(String(pid));
    pid = Number(text(`/proc/${pid}/stat`).split(") ").pop().split(" ")[1]);
  }
  return found;
}

function processes() {
  const mine = new Set(ancestors());
  return names("/proc")
    .filter((pid) => /^\d+$/.test(pid) && !mine.has(pid))
    .filter((pid) => ofRun(pid))
    .map((pid) => {
      const fields = text(`/proc/${pid}/stat`).split(") ").pop().split(" ");
      const command = text(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim() || text(`/proc/${pid}/comm`).trim();
      return fields[0] === "Z" || !command ? "" : `process ${pid} (started ${fields[19]}): ${command.slice(0, 150)}`;
    });
}

const mounts = () =>
  text("/proc/self/mountinfo")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((path) => alone || path.startsWith(folder))
    .map((path) => `mount ${path}`);

const ours = (path) => names(path).filter((name) => name.startsWith("pulumi-vgpu-"));

// Only what is named as ours: compilers keep their caches in TMPDIR too.
function folders() {
  const run = ours(join(folder, "tmp")).flatMap((name) => {
    const path = join(folder, "tmp", name);
    // The folder that all simulated hosts share may stay when it is empty.
    return name.startsWith("pulumi-vgpu-simhost-") ? names(path).map((one) => join(path, one)) : [path];
  });
  const others = ours("/tmp").map((name) => `/tmp/${name}`);
  return [...run, ...(alone ? others.filter((path) => path !== folder) : [])].map((path) => `folder ${path}`);
}

function network() {
  if (!alone) return [];
  return [
    ...names("/run/netns").map((name) => `network namespace ${name}`),
    ...names("/sys/class/net").map((name) => `network link ${name}`),
  ];
}

const look = () => [...processes(), ...mounts(), ...network(), ...folders()].filter(Boolean);

const list = join(folder, "before.json");
if (when === "before") {
  writeFileSync(list, JSON.stringify(look()));
} else {
  const before = new Set(JSON.parse(readFileSync(list, "utf8")));
  const since = () => look().filter((one) => !before.has(one));
  const until = Date.now() + PATIENCE_MS;
  let left = since();
  while (left.length > 0 && Date.now() < until) {
    await delay(200);
    left = since();
  }
  if (left.length > 0) {
    console.log(`left behind by ${basename(folder)}:`);
    for (const one of left) console.log(`  ${one}`);
    process.exitCode = 1;
  }
}
