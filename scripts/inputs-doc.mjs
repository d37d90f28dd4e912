// The README's lists of inputs and outputs, made from the tables that the provider uses.
import { evaluate } from "./evaluate.mjs";

const code = (text) => `\`${text}\``;

export function inputsTable(root) {
  const { INPUTS } = evaluate(root, "provider/dynamic/inputs.ts");
  const { EFFECTS } = evaluate(root, "provider/dynamic/input-changes.ts");
  const rows = Object.entries(INPUTS)
    .filter(([, { hidden }]) => !hidden)
    .map(([name, row]) => [code(name), row.text, defaultOf(row), row.effect ?? EFFECTS[row.change]]);
  const lines = [["input", "what it is", "default", "a change of it"], ["---", "---", "---", "---"], ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function defaultOf({ required, defaultText, default: value }) {
  if (defaultText !== undefined) return defaultText;
  return required ? "required" : code(JSON.stringify(value));
}

export function outputsSentence(root) {
  const { INPUTS } = evaluate(root, "provider/dynamic/inputs.ts");
  const { UNANSWERED } = evaluate(root, "provider/dynamic/outputs.ts");
  const inputs = Object.keys(INPUTS).filter((name) => INPUTS[name].output);
  // What is only for the next diff is no part of the class.
  const observed = Object.keys(UNANSWERED).filter((name) => name !== "claimedTypeId" && name !== "appliedSpec");
  return `Outputs are the inputs ${list(inputs)}, and ${list(observed)}.`;
}

const list = (names) => `${names.slice(0, -1).map(code).join(", ")} and ${code(names.at(-1))}`;
