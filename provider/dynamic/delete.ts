import { deleteValue } from "../protocol/messages";
import { askHost } from "./ask-host";
import { logOf } from "./log";
import { fromState, namedBy } from "./state";

/** Deletes an instance. Anything but the host's confirmation that it is deleted is a failure, and the resource stays in state. */
export async function deleteInstance(id: string, props: Record<string, unknown>): Promise<void> {
  const known = fromState(id, props);
  const { host, connection } = known;
  const { stale } = await askHost({
    host,
    connection,
    ask: { verb: "delete", ...namedBy(known) },
    answer: deleteValue,
  });
  if (stale) {
    const text = `the instance that this state named is already gone; what is on ${host} under its id now was not touched`;
    logOf(known.instance).warn(text);
  }
}
