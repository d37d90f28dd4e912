// The main job, once, on a simulated GPU host, for somebody who sees it for the first time: up, a look, a destroy that
// cannot finish and says so, destroy, and a proof that nothing is left. Ends with 1 if anything is not as it says.
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { differences } from "./differences.mjs";
import { SimulatedHost } from "./host.mjs";
import { Project } from "./project.mjs";
import { check, failures, heading, note, table } from "./show.mjs";

const setup = JSON.parse(readFileSync(new URL("../../build/setup.json", import.meta.url), "utf8"));
const INSTANCE = "trainer-1";
const VGPU_HOST = "/usr/local/lib/vgpu/current/vgpu-host";
const GUEST_MS = 120_000;
/** PCI id of the harmless device that stands in the guest where a vGPU would be. */
const STAND_IN = "1234:11e8";

async function main() {
  const host = await anotherHost();
  try {
    const before = await host.ctl("inventory");
    const project = await Project.make(setup, {
      host: "127.0.0.1",
      port: host.port,
      privateKeyFile: host.keyFile,
      hostKey: host.hostKey,
      profile: "NVIDIA L40S-8Q",
      vcpus: 1,
      memory: "256MiB",
      image: setup.guestImage,
    });
    try {
      await up(project);
      const vf = await project.output("virtualFunction");
      await whatIsThere(host, vf);
      await destroyThatFails(host, project, vf);
      await destroy(host, project, vf);
    } finally {
      project.remove();
    }
    await whatIsLeft(host, before);
  } finally {
    await host.stop();
  }
}

async function anotherHost() {
  heading("A GPU host");
  note(
    "There is no NVIDIA hardware here. A host stands in for it: a real systemd, sshd and QEMU in namespaces of their",
  );
  note("own, and a model of the driver's files in sysfs. The product does not know the difference.");
  const host = await SimulatedHost.start();
  note(`It listens on 127.0.0.1:${host.port}. Its cards:`);
  table((await host.ctl("status")).cards, {
    card: (card) => card.address,
    model: (card) => card.model,
    "NUMA node": (card) => card.numaNode,
    "virtual functions": (card) => card.functions.map((one) => one.address).join(" "),
  });
  return host;
}

async function up(project) {
  heading("pulumi up");
  note("The program is examples/quickstart; the package is the packed one, as it would come from a registry.");
  await project.pulumi("config");
  check("up succeeds", (await project.pulumi("up", "--yes", "--skip-preview")) === 0);
}

async function whatIsThere(host, vf) {
  heading("What is on the host now");
  await host.ssh(`${VGPU_HOST} inspect`);
  await host.ssh(`${VGPU_HOST} list`);
  await host.ssh(`systemctl --no-pager --lines=0 status vgpu-vm-${INSTANCE} | cut -c 1-110`);
  const typed = (await host.functions()).filter((one) => one.typeId !== 0);
  check(`of all functions only ${vf} has a type`, typed.length === 1 && typed[0].address === vf);
  check("one process holds its VFIO node", typed[0]?.holders.length === 1);

  note("The guest boots. Its serial console is in the journal of the VM's unit:");
  const journal = `journalctl --no-pager -o cat -u vgpu-vm-${INSTANCE} | grep vgpu-guest`;
  const until = Date.now() + GUEST_MS;
  while (!(await host.ssh(journal, { quiet: true })).text.includes("ready") && Date.now() < until) await delay(500);
  const { text } = await host.ssh(journal);
  check(`the guest has booted and sees ${STAND_IN}, which stands for the vGPU`, text.includes(STAND_IN));
}

async function destroyThatFails(host, project, vf) {
  heading("A destroy that cannot finish");
  note(`The driver's part that serves ${vf} now does what it sometimes does in life: it hangs when the VM has ended,`);
  note("and the driver refuses to release the function: busy. Nothing may be forgotten as long as that is so.");
  await host.ctl("linger", "--vf", vf, "--", "-1");
  check("destroy fails", (await project.pulumi("destroy", "--yes", "--skip-preview")) !== 0);
  check("the resource is still in the state", (await project.resources()).length === 1);
  check(`${vf} still has its type`, (await host.functions()).find((one) => one.address === vf).typeId !== 0);
  await host.ssh(`${VGPU_HOST} list`);
}

async function destroy(host, project, vf) {
  heading("Once it is free");
  note("The driver has come to its senses. The same command again:");
  await host.ctl("linger", "0", "--vf", vf);
  check("destroy succeeds", (await project.pulumi("destroy", "--yes", "--skip-preview")) === 0);
  check("nothing is left in the state", (await project.resources()).length === 0);
}

async function whatIsLeft(host, before) {
  heading("What is left");
  note("Everything that was written to the driver, as the hardware saw it:");
  table(await host.ctl("log"), {
    function: (write) => write.vf,
    value: (write) => write.value,
    result: (write) => write.result,
  });
  note("");
  note(
    "The host before and after: types, processes, mounts, sockets, units, interfaces, files in the product's folders.",
  );
  const { kept, unexpected } = await settled(async () => differences(before, await host.ctl("inventory")));
  for (const line of kept) note(`  kept by install: ${line}`);
  for (const line of unexpected) note(`  LEFT BEHIND: ${line}`);
  check("the host is as it was, but for what install put there", unexpected.length === 0);
  const violations = await host.ctl("violations");
  for (const { rule, vf, text } of violations) note(`  ${rule} ${vf}: ${text}`);
  check("the observer outside the product saw no unsafe write", violations.length === 0);
}

/** The difference once it is none, or after some seconds: the timer's reconciliation may just be at work. */
async function settled(look) {
  for (let tries = 0; ; tries++) {
    const found = await look();
    if (found.unexpected.length === 0 || tries === 8) return found;
    await delay(1000);
  }
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(130));
try {
  await main();
  heading(failures.length === 0 ? "All of it is so" : `Not so: ${failures.join("; ")}`);
} catch (error) {
  heading(`The demo could not go on: ${error.message}`);
  failures.push(error.message);
}
process.exitCode = failures.length === 0 ? 0 : 1;
