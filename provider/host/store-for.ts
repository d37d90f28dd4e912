import { VgpuError } from "../protocol/errors";
import type { Request, Verb } from "../protocol/messages";
import { type Identity, isBeingMade, readIdentity, readMachineId } from "./store/identity";
import type { System } from "./system/system";
import { SAFE_ON_ANOTHER_MACHINE } from "./verbs";
import { installHost } from "./verbs/install";

/** Verbs that write to the store; they finish an interrupted install or uninstall. */
const WRITES: ReadonlySet<Verb> = new Set(["create", "update", "start"]);
/** Verbs that have an answer on a host without a store. */
const WITHOUT_STORE: ReadonlySet<Verb> = new Set(["inspect", "list", "uninstall"]);

/** The store that the request means. Only a request that names none may create one. */
export async function storeFor(system: System, program: string, request: Request): Promise<Identity | undefined> {
  const { files } = system;
  const there = await readIdentity(files);
  const makeStore = request.storeId === undefined && (request.verb === "install" || request.verb === "create");
  const identity = (await mustInstall(system, request, { there, makeStore }))
    ? await installHost(system, program, makeStore)
    : there;
  if (!identity) {
    if (WITHOUT_STORE.has(request.verb)) return undefined;
    throw new VgpuError(
      "store_mismatch",
      "This host has no store: nothing was ever installed here, or its state was lost.",
    );
  }
  if (request.storeId !== undefined && request.storeId !== identity.storeId) {
    throw new VgpuError(
      "store_mismatch",
      `The state names store ${request.storeId}, this host has store ${identity.storeId}.`,
    );
  }
  const machineId = await readMachineId(files);
  if (identity.storeMachineId !== machineId && !SAFE_ON_ANOTHER_MACHINE.has(request.verb)) {
    throw new VgpuError(
      "store_mismatch",
      `The store was made on machine ${identity.storeMachineId}, this is machine ${machineId}.`,
    );
  }
  return identity;
}

async function mustInstall(
  { files }: System,
  { verb }: Request,
  { there, makeStore }: { there: Identity | undefined; makeStore: boolean },
): Promise<boolean> {
  if (verb === "install") return true;
  // It completes the store itself, and needs no new units for that.
  if (verb === "uninstall") return false;
  if (!there) return makeStore;
  return !there.witnessed || (WRITES.has(verb) && (await isBeingMade(files)));
}
