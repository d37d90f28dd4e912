// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|.)/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;

/**
 * Text from another machine as one harmless line: it is data, so it may neither move the cursor nor start a new line that
 * looks like one of ours.
 */
export function printable(text: string, max = 500): string {
  const line = text
    .slice(0, max * 8)
    .replace(ESCAPES, "")
    .replace(CONTROLS, " ")
    .trim();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}
