import { stat } from "node:fs/promises";
import { KeyProblem, readPrivateKey } from "../ssh/keys";
import { fileSha256 } from "../ssh/upload";
import { withDefaults } from "./inputs";
import { containsUnknown, type Problem, validateInputs } from "./validation";

export interface Checked {
  readonly inputs: Record<string, unknown>;
  readonly failures: Problem[];
}

/**
 * Every problem of the inputs at once, each with its property path; no connection is made. The answer holds the inputs with
 * their defaults and the hash of a local image.
 */
export async function checkInputs(values: Record<string, unknown>): Promise<Checked> {
  const given = withoutNulls(values) as Record<string, unknown>;
  const { __provider: provider, ...own } = given;
  const failures = [...validateInputs(own), ...keyProblems(own.connection, "connection")];
  const inputs: Record<string, unknown> = {
    ...withDefaults(own),
    ...(provider !== undefined && { __provider: provider }),
  };
  if (failures.length > 0) return { inputs: values, failures };
  const file = imageFile(own.image);
  // A hash that is there already is the old one, by the option ignoreChanges: the program never gives any.
  if (file === undefined || own.imageSha256 !== undefined) return { inputs, failures };
  try {
    return { inputs: { ...inputs, imageSha256: await hashOf(file) }, failures };
  } catch (error) {
    const code = (error as { code?: string }).code ?? "";
    const reason =
      code === "ENOENT" ? "expected a file on this machine: there is none" : `cannot be read (${code || "error"})`;
    return { inputs: values, failures: [{ property: "image.file", reason }] };
  }
}

/** The path of an image on the operator's machine, where it is known. */
export function imageFile(image: unknown): string | undefined {
  const file = (image as { file?: unknown } | undefined)?.file;
  return typeof file === "string" && !containsUnknown(file) ? file : undefined;
}

const hashes = new Map<string, Promise<string>>();

/** The hash of a file, computed once while the file does not change. */
async function hashOf(path: string): Promise<string> {
  const { ino, size, mtimeMs, isFile } = await stat(path).then((found) => ({
    ino: found.ino,
    size: found.size,
    mtimeMs: found.mtimeMs,
    isFile: found.isFile(),
  }));
  if (!isFile) throw Object.assign(new Error("not a file"), { code: "not a file" });
  const key = JSON.stringify([path, ino, size, mtimeMs]);
  const hash = hashes.get(key) ?? fileSha256(path);
  hashes.set(key, hash);
  hash.catch(() => hashes.delete(key));
  return hash;
}

/** A key that cannot be used is found before anything is connected. */
function keyProblems(connection: unknown, path: string): Problem[] {
  if (typeof connection !== "object" || connection === null) return [];
  const { privateKey, privateKeyPassword, proxy } = connection as Record<string, unknown>;
  const hops = Array.isArray(proxy)
    ? proxy.map((hop, index) => keyProblems(hop, `${path}.proxy[${index}]`))
    : [keyProblems(proxy, `${path}.proxy`)];
  return [...keyProblem(privateKey, privateKeyPassword, path), ...hops.flat()];
}

function keyProblem(key: unknown, passphrase: unknown, path: string): Problem[] {
  // A passphrase is slow on purpose to try, so that is left to the connection.
  if (typeof key !== "string" || !key || passphrase !== undefined || containsUnknown(key)) return [];
  try {
    readPrivateKey(key);
    return [];
  } catch (error) {
    if (!(error instanceof KeyProblem)) throw error;
    if (/passphrase/.test(error.message)) return [];
    return [{ property: `${path}.privateKey`, reason: `expected a private key: ${error.message}` }];
  }
}

/** A null is an input that was not given. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([, entry]) => entry !== null && entry !== undefined);
  return Object.fromEntries(kept.map(([key, entry]) => [key, withoutNulls(entry)]));
}
