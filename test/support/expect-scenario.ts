import { expect, TestRunner } from "vitest";

/** The columns that a scenario's row has after "given" and "when"; docs/internals/scenarios.txt says which of them have something to say. */
export interface ScenarioColumns<Text> {
  /** Device writes in order, as `vf value result`. */
  readonly writes?: readonly unknown[];
  /** The instance's record afterwards: whole (then it has a `version`), or as much of it as matters; undefined when there is none. */
  readonly record?: unknown;
  /** The messages: the error with its causes and hint, and the warnings. */
  readonly says?: Text;
  /** `""` when it went well, else the error's code; for a decision that is no verb, its answer. */
  readonly outcome?: unknown;
}

const COLUMNS = ["writes", "record", "says", "outcome"] as const;

/**
 * The shared assertion of all scenarios: what was seen is what the row says, in each column given. Each counts as seen for the ids in the
 * running test's name; a scenario is covered when every column of its row was.
 */
export function expectScenario(
  seen: ScenarioColumns<string>,
  row: ScenarioColumns<RegExp | readonly RegExp[] | "">,
): void {
  if ("writes" in row) expect(seen.writes, "device writes").toEqual(row.writes);
  if ("record" in row) {
    const { record } = row;
    const isPart = typeof record === "object" && record !== null && !("version" in record);
    if (isPart) expect(seen.record, "record").toMatchObject(record);
    else expect(seen.record, "record").toEqual(record);
  }
  if (row.says === "") expect(seen.says, "what is said").toBe("");
  else for (const pattern of [row.says ?? []].flat()) expect(seen.says, "what is said").toMatch(pattern);
  if ("outcome" in row) expect(seen.outcome, "outcome").toEqual(row.outcome);
  count(COLUMNS.filter((column) => column in row));
}

/** The same for a decision that is a function of facts alone: it has no host, so it writes nothing and changes no record. */
export function expectDecision(
  seen: Pick<ScenarioColumns<string>, "says" | "outcome">,
  row: Pick<ScenarioColumns<RegExp | readonly RegExp[] | "">, "says" | "outcome">,
): void {
  expectScenario(seen, row);
  count(["writes", "record"]);
}

/** Notes with the running test what it has seen; the runner's results carry it. */
function count(columns: readonly string[]): void {
  const { meta } = TestRunner.getCurrentTest() as { meta: { columns?: string[] } };
  meta.columns = [...new Set([...(meta.columns ?? []), ...columns])];
}
