import * as pulumi from "@pulumi/pulumi";
import type { ConnectionArgs } from "./instance";

const SECRETS = ["privateKey", "privateKeyPassword", "password"];

/** The connection with its credentials marked as secrets, so that no state holds them in plain. */
export function withSecrets(connection: pulumi.Input<ConnectionArgs> | undefined): pulumi.Input<object> | undefined {
  if (connection === undefined) return undefined;
  // What is inside an output, or has another form than it should, can only be marked as a whole.
  if (!isPlain(connection)) return pulumi.secret(connection);
  const { proxy, ...own } = connection;
  if (proxy === undefined) return marked(own);
  if (Array.isArray(proxy))
    return { ...marked(own), proxy: proxy.map((hop) => (isPlain(hop) ? marked(hop) : pulumi.secret(hop))) };
  return { ...marked(own), proxy: isPlain(proxy) ? marked(proxy) : pulumi.secret(proxy) };
}

function isPlain<T extends object>(value: pulumi.Input<T>): value is T {
  return (
    typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype && !pulumi.Output.isInstance(value)
  );
}

function marked(values: object): object {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      key,
      SECRETS.includes(key) && value !== undefined ? pulumi.secret(value) : value,
    ]),
  );
}
