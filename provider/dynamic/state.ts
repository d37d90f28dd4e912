import { instanceOf } from "./pulumi-id";

/** What a state says of an instance; states of older releases may lack the newer parts. */
export interface Remembered {
  readonly host: string;
  readonly instance: string;
  /** `""` when no answer of the host has come yet. */
  readonly storeId: string;
  readonly incarnation: string;
}

export function fromState(id: string, props: Record<string, unknown>): Remembered {
  const text = (name: string) => (typeof props[name] === "string" ? (props[name] as string) : "");
  return {
    host: text("host") || id.slice(0, Math.max(0, id.lastIndexOf("/"))),
    instance: text("instanceId") || instanceOf(id),
    storeId: text("storeId"),
    incarnation: text("incarnation"),
  };
}
