// The command `simhost`: makes the program if it is not there yet, and becomes it.
import { bundle, here } from "./bundle.mjs";

const program = await bundle();
process.argv = [process.execPath, program, "cli", here, ...process.argv.slice(2)];
await import(program);
