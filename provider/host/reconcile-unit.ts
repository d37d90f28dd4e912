import { EXIT, type Result } from "../protocol/messages";
import type { Report } from "../protocol/report";

const LOCK = "reconcile";

interface Pass {
  /** Runs the verb. */
  run(): Promise<{ result: Result; code: number }>;
  /** Runs work under a lock that only one pass has; undefined when another pass has it. */
  alone<T>(lock: string, work: () => Promise<T>): Promise<T | undefined>;
}

/**
 * What the boot unit and the timer run: the same code as the verb, never two passes at a time. The report goes to stdout as JSON; stderr,
 * which is the unit's journal, gets one line per finding.
 */
export async function reconcilePass({ run, alone }: Pass): Promise<number> {
  const end = await alone(LOCK, run);
  if (!end) {
    console.log(JSON.stringify({ skipped: "another pass is running" }));
    return EXIT.ok;
  }
  const { result, code } = end;
  for (const warning of result.warnings) console.error(`warning: ${warning}`);
  if (!result.ok) {
    console.log(JSON.stringify({ error: result.error }));
    console.error(`${result.error.code}: ${result.error.message} ${result.error.hint}`);
    return code;
  }
  const report = result.value as Report;
  console.log(JSON.stringify(report));
  for (const { kind, about, text } of report.findings) console.error(`${kind} ${about}: ${text}`);
  return code;
}
