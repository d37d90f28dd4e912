import * as fs from "node:fs";
import { join } from "node:path";
import { Script } from "node:vm";

/**
 * Runs the program beside this file from compiled code, where earlier runs of the same Node.js have left some: compiling is a good
 * part of a short verb's time. Only root can write there, and V8 refuses what another version of it has made.
 */
const PROGRAM = join(__dirname, "program.cjs");
/** So many runs add what they have called: V8 compiles a function when it is first called, and each verb calls others. */
const RUNS = 4;
const compiledBy = (run: number) => join(__dirname, `program.compiled.${run}`);
const PART = join(__dirname, "program.compiled.part");
/** A part this old is of a run that was killed. */
const ABANDONED_AFTER_MS = 60_000;

const kept = newest();
// The bundle is one function's text, all ASCII: read as Latin-1 it takes one byte a character.
const script = new Script(fs.readFileSync(PROGRAM, "latin1"), {
  filename: PROGRAM,
  ...(kept && { cachedData: kept.code }),
});
const runs = script.cachedDataRejected ? 0 : (kept?.run ?? 0);
if (runs < RUNS) process.once("exit", () => keepCompiled(runs + 1));
const program = { exports: {} };
script.runInThisContext()(program.exports, require, program, PROGRAM, __dirname);

function newest(): { readonly run: number; readonly code: Buffer } | undefined {
  for (let run = RUNS; run > 0; run--) {
    const code = attempt(() => fs.readFileSync(compiledBy(run)));
    if (code) return { run, code };
  }
  return undefined;
}

/** Without it the next run is slower, no more. */
function keepCompiled(run: number): void {
  attempt(() => {
    if (Date.now() - (attempt(() => fs.statSync(PART))?.mtimeMs ?? Date.now()) > ABANDONED_AFTER_MS)
      fs.unlinkSync(PART);
    const file = fs.openSync(PART, "wx", 0o600);
    fs.writeSync(file, script.createCachedData());
    // V8 does not look for damage within it.
    fs.fsyncSync(file);
    fs.closeSync(file);
    fs.renameSync(PART, compiledBy(run));
    if (kept && kept.run !== run) fs.unlinkSync(compiledBy(kept.run));
  });
}

function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}
