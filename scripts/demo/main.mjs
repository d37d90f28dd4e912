// The main job, once, on a simulated GPU host, for somebody who sees it for the first time: up, look, a destroy that cannot
// finish and says so, destroy, and a proof that nothing is left. Ends with 1 if anything is not as it says.
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { differences } from "./differences.mjs";
import { SimulatedHost } from "./host.mjs";
import { Project } from "./project.mjs";
import { check, failures, heading, note, table } from "./show.mjs";

const setup = JSON.parse(readFileSync(new URL("../../build/setup.json", import.meta.url), "utf8"));
const PROFILE = "NVIDIA L40S-8Q";
const INSTANCE = "trainer-1";
const GUEST_MS = 120_000;

async function main() {
  heading("A GPU host");
  note(
    "There is no NVIDIA hardware here. A host stands in for it: a real systemd, sshd and QEMU in namespaces of their own,",
  );
  note("and a model of the driver's files in sysfs. The product does not know the difference.");
  const host = await SimulatedHost.start();
  try {
    note(`It listens on 127.0.0.1:${host.port}. Its cards:`);
    table((await host.ctl("status")).cards, {
      card: (card) => card.address,
      model: (card) => card.model,
      "NUMA node": (card) => card.numaNode,
      "virtual functions": (card) => card.functions.map((vf) => vf.address).join(" "),
    });
    const before = await host.ctl("inventory");

    heading("pulumi up");
    note("The program is examples/quickstart; the package is the packed one, as it would come from a registry.");
    const project = await quickstart(host);
    try {
      check("up succeeds", (await project.pulumi("up", "--yes", "--skip-preview")) === 0);

      heading("What is on the host now");
      const vf = await project.output("virtualFunction");
      const functions = (await host.ctl("status")).cards.flatMap((card) => card.functions);
      await host.ssh("/usr/local/lib/vgpu/current/vgpu-host inspect");
      await host.ssh("/usr/local/lib/vgpu/current/vgpu-host list");
      await host.ssh(`systemctl --no-pager --lines=0 status vgpu-vm-${INSTANCE}`);
      const claimed = functions.filter((one) => one.typeId !== 0);
      check(`of all functions only ${vf} has a type`, claimed.length === 1 && claimed[0].address === vf);
      check("one process holds its VFIO node", claimed[0]?.holders.length === 1);

      note("The machine boots; its serial console is in the journal of its unit:");
      const console_ = `journalctl --no-pager -o cat -u vgpu-vm-${INSTANCE} | grep vgpu-guest`;
      const until = Date.now() + GUEST_MS;
      while (!(await host.ssh(console_, { quiet: true })).text.includes("ready") && Date.now() < until)
        await delay(500);
      const { text: said } = await host.ssh(console_);
      check("the guest has booted and sees its PCI devices", /pci .*[\s\S]*ready/.test(said));

      heading("A destroy that cannot finish");
      note(`Somebody else's process opens the VFIO node of ${vf}. A function that is in use must not be released:`);
      note("it would be pulled from under whoever uses it.");
      await host.ctl("foreign-hold", vf, "--cdev");
      check("destroy fails", (await project.pulumi("destroy", "--yes", "--skip-preview")) !== 0);
      check("the resource is still in the state", (await project.resources()).length === 1);
      const typeNow = async () =>
        (await host.ctl("status")).cards.flatMap((card) => card.functions).find((one) => one.address === vf).typeId;
      check(`${vf} still has its type: nothing was taken from anybody`, (await typeNow()) !== 0);
      await host.ssh("/usr/local/lib/vgpu/current/vgpu-host list");

      heading("Once it is free");
      await host.ctl("foreign-release", vf);
      note("The process has let go. The same command again:");
      check("destroy succeeds", (await project.pulumi("destroy", "--yes", "--skip-preview")) === 0);
      check("nothing is left in the state", (await project.resources()).length === 0);

      heading("What is left");
      note("Everything that was ever written to the driver, as the hardware saw it:");
      table(await host.ctl("log"), {
        function: (write) => write.vf,
        value: (write) => write.value,
        result: (write) => write.result,
      });
      const left = differences(before, await host.ctl("inventory"));
      note(
        "The host before and after: types, processes, mounts, sockets, units, interfaces, and files in the product's folders.",
      );
      for (const line of left.installed) note(`  by install: ${line}`);
      for (const line of left.unexpected) note(`  LEFT BEHIND: ${line}`);
      check("the host is as it was, but for what install put there", left.unexpected.length === 0);
      const violations = await host.ctl("violations");
      for (const { rule, vf: where, text } of violations) note(`  ${rule} ${where}: ${text}`);
      check("the observer outside the product saw no unsafe write", violations.length === 0);
    } finally {
      project.remove();
    }
  } finally {
    await host.stop();
  }
}

/** The quickstart with this host in its configuration. */
function quickstart(host) {
  return Project.make(setup, {
    host: "127.0.0.1",
    port: host.port,
    privateKeyFile: host.keyFile,
    hostKey: host.hostKey,
    profile: PROFILE,
    vcpus: 1,
    memory: "256MiB",
    image: setup.guestImage,
  });
}

await main();
heading(failures.length === 0 ? "All of it is so." : `Not so: ${failures.join("; ")}`);
process.exitCode = failures.length === 0 ? 0 : 1;
