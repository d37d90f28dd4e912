import type { ConnectionInputs } from "./connection-inputs";
import { withDefaults } from "./inputs";
import { instanceOf } from "./pulumi-id";

/** What a state says of an instance; states of older releases may lack the newer parts. */
export interface Remembered {
  readonly host: string;
  readonly connection: { readonly state: ConnectionInputs };
  readonly instance: string;
  /** `""` when no answer of the host has come yet. */
  readonly storeId: string;
  readonly incarnation: string;
}

export function fromState(id: string, props: Record<string, unknown>): Remembered {
  const text = (name: string) => (typeof props[name] === "string" ? (props[name] as string) : "");
  return {
    host: text("host") || id.slice(0, Math.max(0, id.lastIndexOf("/"))),
    connection: { state: withDefaults(props).connection },
    instance: text("instanceId") || instanceOf(id),
    storeId: text("storeId"),
    incarnation: text("incarnation"),
  };
}

/** What a verb that comes from a state says of its instance. */
export const namedBy = ({ instance, storeId, incarnation }: Remembered) => ({
  instance,
  ...(storeId && { storeId }),
  ...(incarnation && { incarnation }),
});
