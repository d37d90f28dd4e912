import type * as z from "zod/mini";
import type { Files } from "../system/system";
import { readIfThere } from "./files";

/** A text checked against a schema: its value, or why it has none. */
export type Parsed<T> = { readonly value: T } | { readonly problem: string };

/** Parses JSON; undefined when the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Checks a value; `whole` names it in a problem that has no path. */
export function check<T>(schema: z.ZodMiniType<T>, value: unknown, whole = "the file"): Parsed<T> {
  if (value === undefined) return { problem: "not JSON" };
  const read = schema.safeParse(value);
  if (read.success) return { value: read.data };
  const problems = read.error.issues.map(({ path, message }) => `${path.join(".") || whole}: ${message}`);
  return { problem: problems.join("; ") };
}

/** Reads a JSON file; undefined when there is none. */
export async function readJson<T>(
  files: Files,
  path: string,
  schema: z.ZodMiniType<T>,
): Promise<Parsed<T> | undefined> {
  const text = await readIfThere(files, path);
  return text === undefined ? undefined : check(schema, parseJson(text));
}
