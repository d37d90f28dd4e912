import { distance } from "fastest-levenshtein";
import type * as z from "zod";
import { inputs, NAMES, UNKNOWN } from "./inputs";

/** One thing that is wrong with the inputs. */
export interface Problem {
  /** Property path, such as `connection.proxy[0].port`. */
  readonly property: string;
  /** What was expected; never the value, which may be a secret. */
  readonly reason: string;
}

/**
 * A problem as the engine shall show it. The engine prints the value of the property that is named, so only inputs that can
 * hold no secret are named to it; it cannot find a nested one. For all others the path stands in the sentence.
 */
export function forEngine({ property, reason }: Problem): Problem {
  const shown = property in inputs.shape && property !== "connection" && property !== "image";
  return shown ? { property, reason } : { property: "", reason: `${property}: ${reason}` };
}

type Path = readonly PropertyKey[];

/** Every problem of the inputs. Values that are not known yet are not judged. */
export function validateInputs(values: Record<string, unknown>): Problem[] {
  const { error } = inputs.safeParse(values);
  const found = (error?.issues ?? [])
    .filter((issue) => !passesUnknown(values, issue.path))
    .flatMap((issue) => explain(values, issue));
  // One sentence for each property: its later rules are about a value that has the right form.
  return found.filter(({ property }, index) => found.findIndex((other) => other.property === property) === index);
}

export function containsUnknown(value: unknown): boolean {
  if (value === UNKNOWN) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(containsUnknown);
}

function passesUnknown(values: unknown, path: Path): boolean {
  return path.some((_, index) => at(values, path.slice(0, index + 1)) === UNKNOWN);
}

function at(values: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key],
    values,
  );
}

function explain(values: unknown, issue: z.core.$ZodIssue): Problem[] {
  const property = propertyPath(issue.path);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      property: propertyPath([...issue.path, key]),
      reason: unknownProperty(issue.path, key),
    }));
  }
  const expected = expectation(issue);
  const missing = at(values, issue.path) === undefined;
  return [{ property, reason: missing ? `is required: expected ${expected}` : `expected ${expected}` }];
}

function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.expected === "never" ? issue.message : (TYPES[issue.expected] ?? issue.expected);
    case "invalid_value":
      return issue.values.length > 1
        ? `one of ${issue.values.map((value) => JSON.stringify(value)).join(", ")}`
        : issue.message;
    case "too_small":
      return issue.origin === "string" ? "text that is not empty" : `at least ${issue.minimum}`;
    case "too_big":
      return issue.origin === "string" ? `at most ${issue.maximum} characters` : `at most ${issue.maximum}`;
    default:
      return issue.message;
  }
}

const TYPES: Record<string, string> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  object: "an object",
  array: "a list",
};

function propertyPath(path: Path): string {
  return path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text ? `${text}.${String(key)}` : String(key)),
    "",
  );
}

function unknownProperty(path: Path, key: string): string {
  const place = path.filter((part) => typeof part === "string").at(-1) ?? "";
  const names = NAMES[String(place)] ?? [];
  const near = names.map((name) => ({ name, far: distance(key.toLowerCase(), name.toLowerCase()) }));
  const nearest = near.sort((one, other) => one.far - other.far)[0];
  const hint =
    nearest && nearest.far <= Math.max(2, key.length / 3)
      ? `did you mean '${nearest.name}'?`
      : `known properties: ${names.join(", ")}`;
  return `unknown property; ${hint}`;
}
