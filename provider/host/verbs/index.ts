import { VgpuError } from "../../protocol/errors";
import type { Request, RequestOf, Verb } from "../../protocol/messages";
import type { HostContext } from "../context";
import { clearFailures } from "../devices/quarantine";
import { createOrUpdate } from "./create-or-update";
import { deleteInstance } from "./delete";
import { inspectHost } from "./inspect";
import { listInstances } from "./list";
import { readInstance } from "./read";
import { reconcileHost } from "./reconcile";
import { releaseForeign } from "./release-foreign";
import { startInstance } from "./start";
import { stopInstance } from "./stop";
import { uninstallHost } from "./uninstall";

type Verbs = { [V in Verb]: (host: HostContext, request: RequestOf<V>) => Promise<unknown> };

/** What each verb does. */
const VERBS: Verbs = {
  install: async (host) => ({ storeId: host.storeId }),
  uninstall: (host) => uninstallHost(host),
  inspect: (host) => inspectHost(host),
  list: (host, { owner }) => listInstances(host, owner),
  reconcile: (host) => reconcileHost(host),
  read: async (host, { instance, incarnation }) => ({ instance: await readInstance(host, instance, incarnation) }),
  create: async (host, asker) => ({ instance: await createOrUpdate(host, asker) }),
  update: async (host, asker) => ({ instance: await createOrUpdate(host, asker) }),
  start: async (host, { instance, incarnation }) => ({ instance: await startInstance(host, instance, incarnation) }),
  stop: async (host, { instance, incarnation }) => ({ instance: await stopInstance(host, instance, incarnation) }),
  delete: (host, { instance, incarnation }) => deleteInstance(host, instance, incarnation),
  release: (host, { vf }) => releaseForeign(host, vf),
  "vf-clear": async (host, { vf }) => {
    await clearFailures(host, vf);
    return { cleared: vf };
  },
};

export function runVerb(host: HostContext, request: Request): Promise<unknown> {
  const verb = VERBS[request.verb] as ((host: HostContext, request: Request) => Promise<unknown>) | undefined;
  if (!verb) throw new VgpuError("invalid_request", `Unknown verb ${request.verb}.`);
  return verb(host, request);
}

/** Verbs allowed on a store that was made on another machine: they read, or remove files only. */
export const SAFE_ON_ANOTHER_MACHINE: ReadonlySet<Verb> = new Set(["read", "list", "delete"]);
