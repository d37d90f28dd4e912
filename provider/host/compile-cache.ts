import * as fs from "node:fs";
import { join } from "node:path";
import { Script } from "node:vm";

/**
 * Runs the program beside this file from compiled code, where earlier runs of the same Node.js have left some: compiling is a good
 * part of a short verb's time. Only root can write there, and V8 refuses what another version of it has made.
 */
const PROGRAM = join(__dirname, "program.cjs");
/** Behind it, the verbs whose functions it has: V8 compiles a function when it is first called, so each verb's first run adds its own. */
const COMPILED = "program.compiled.";
const PART = join(__dirname, "program.compiling");
/** A part this old is of a run that was killed. */
const ABANDONED_AFTER_MS = 60_000;

const kept = fs.readdirSync(__dirname).find((name) => name.startsWith(COMPILED));
const code = kept === undefined ? undefined : attempt(() => fs.readFileSync(join(__dirname, kept)));
// The bundle is one function's text, all ASCII: read as Latin-1 it takes one byte a character.
const script = new Script(fs.readFileSync(PROGRAM, "latin1"), {
  filename: PROGRAM,
  ...(code && { cachedData: code }),
});
const covered = kept === undefined || !code || script.cachedDataRejected ? [] : kept.slice(COMPILED.length).split("+");
const program: { exports: { ran?: string } } = { exports: {} };
process.once("exit", () => {
  const { ran } = program.exports;
  if (ran && !covered.includes(ran)) attempt(() => keepCompiled([...covered, ran]));
});
script.runInThisContext()(program.exports, require, program, PROGRAM, __dirname);

/** Without it the next run is slower, no more. */
function keepCompiled(verbs: readonly string[]): void {
  if (Date.now() - (attempt(() => fs.statSync(PART))?.mtimeMs ?? Date.now()) > ABANDONED_AFTER_MS) fs.unlinkSync(PART);
  const file = fs.openSync(PART, "wx", 0o600);
  fs.writeSync(file, script.createCachedData());
  // V8 does not look for damage within it.
  fs.fsyncSync(file);
  fs.closeSync(file);
  if (kept !== undefined) attempt(() => fs.unlinkSync(join(__dirname, kept)));
  fs.renameSync(PART, join(__dirname, `${COMPILED}${verbs.join("+")}`));
}

function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}
