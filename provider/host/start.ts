import * as fs from "node:fs";
import { join } from "node:path";
import { Script } from "node:vm";

/**
 * Runs the program beside this file from compiled code, where an earlier run of the same Node.js has left some: compiling is a
 * good part of a short verb's time. Only root can write there, and V8 refuses what another version of it has made.
 */
const PROGRAM = join(__dirname, "program.cjs");
const COMPILED = join(__dirname, "program.compiled");
const PART = `${COMPILED}.part`;
/** A part this old is of a run that was killed. */
const ABANDONED_AFTER_MS = 60_000;

const compiled = attempt(() => fs.readFileSync(COMPILED));
// The bundle is one function's text, all ASCII: read as Latin-1 it takes one byte a character.
const script = new Script(fs.readFileSync(PROGRAM, "latin1"), {
  filename: PROGRAM,
  ...(compiled && { cachedData: compiled }),
});
if (!compiled || script.cachedDataRejected) process.once("exit", keepCompiled);
const program = { exports: {} };
script.runInThisContext()(program.exports, require, program, PROGRAM, __dirname);

/** At the end, since functions that were never called are not compiled. Without it the next run is slower, no more. */
function keepCompiled(): void {
  attempt(() => {
    if (Date.now() - (attempt(() => fs.statSync(PART))?.mtimeMs ?? Date.now()) > ABANDONED_AFTER_MS)
      fs.unlinkSync(PART);
    const file = fs.openSync(PART, "wx", 0o600);
    fs.writeSync(file, script.createCachedData());
    // V8 does not look for damage within it.
    fs.fsyncSync(file);
    fs.closeSync(file);
    fs.renameSync(PART, COMPILED);
  });
}

function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}
