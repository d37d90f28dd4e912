import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { PROPERTIES, type Property, type Result, type Run } from "./runs";
import { stepsOf } from "./trace";

const CLAIM = "claim.pml";
const fileOf = ({ model = CLAIM }: Run) => join(__dirname, model);

interface Played {
  readonly result: Result | "incomplete";
  readonly states: number;
  readonly seconds: number;
}

/** Where a run is played, and what ends it early. */
interface Place {
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** Visits every state of a run, until a property is violated. */
export async function play(run: Run, { folder, signal }: Place): Promise<Played> {
  // A stack of the longest path, in steps: about 80 bytes each.
  const depth = run.size === "long" ? 20_000_000 : 3_000_000;
  const end = await search(run, { folder, signal, options: [], depth });
  const states = Number(/([0-9.e+]+) states, stored/.exec(end.text)?.[1] ?? 0);
  return { result: resultOf(end.text), states, seconds: end.seconds };
}

/** The shortest way to a violation, as sentences; empty when there is none. */
export async function counterexample(run: Run, { folder, signal }: Place): Promise<string[]> {
  // Breadth first; it keeps the middles of steps too, so it needs far more room.
  const end = await search(run, { folder, signal, options: ["-DBFS"], depth: 100_000 });
  const { stdout } = await execa("spin", ["-t", "-p", "-g", "model.pml"], { cwd: folder, maxBuffer: 1 << 28 });
  // Only the claim's steps have words of their own.
  const steps = run.model ? stdout.split("\n") : stepsOf(stdout, await readFile(fileOf(run), "utf8"));
  return [...steps, `next: ${resultOf(end.text)} is violated`];
}

interface Search extends Place {
  readonly options: readonly string[];
  readonly depth: number;
}

async function search(run: Run, { folder, signal, options, depth }: Search) {
  await mkdir(folder, { recursive: true });
  const at = { cwd: folder, cancelSignal: signal, maxBuffer: 1 << 26 };
  const flags = run.flags.split(" ").filter((flag) => flag !== "");
  const text = await execa("gcc", ["-E", "-P", "-x", "c", ...flags.map((flag) => `-D${flag}`), fileOf(run)], at);
  await writeFile(join(folder, "model.pml"), text.stdout);
  await execa("spin", ["-a", "model.pml"], at);
  const sizes = ["-DVECTORSZ=512", `-DMEMLIM=${run.size === "long" ? 16_000 : 4000}`];
  // The compiler takes longer than a short search: it optimises only for the long ones.
  const effort = run.size === "long" ? "-O1" : "-O0";
  await execa("gcc", [effort, "-w", "-DSAFETY", ...sizes, ...options, "-o", "pan", "pan.c"], at);
  const began = Date.now();
  // It ends with another code when its bounds are reached; what it says then is judged all the same.
  const { stdout } = await execa("nice", ["./pan", `-m${depth}`, "-w24", "-n"], { ...at, reject: false });
  return { text: stdout, seconds: (Date.now() - began) / 1000 };
}

/** What the verifier says: only a search that was bounded by nothing shows that all is well. */
export function resultOf(text: string): Result | "incomplete" {
  const failed = /^pan:1: (.*)$/m.exec(text)?.[1];
  if (failed !== undefined) {
    const number = Number(/!\s?\((\d\d)\)/.exec(failed)?.[1]);
    const property = (Object.keys(PROPERTIES) as Property[]).find((name) => PROPERTIES[name] === number);
    if (property) return property;
    throw new Error(`the model itself is wrong: ${failed}`);
  }
  const isBounded = /max search depth|out of memory|reached -DMEMLIM/.test(text);
  return /errors: 0/.test(text) && !isBounded ? "ok" : "incomplete";
}
