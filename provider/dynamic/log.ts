import { printable } from "../protocol/printable";

/** Lines to the user. They carry the resource's name, which the engine's own prefix does not. */
export interface Log {
  info(text: string): void;
  warn(text: string): void;
}

/** What a plugin prints is shown by the CLI. */
export function logOf(name: string): Log {
  return {
    info: (text) => console.log(`${name}: ${printable(text, 1000)}`),
    warn: (text) => console.log(`${name}: warning: ${printable(text, 1000)}`),
  };
}
