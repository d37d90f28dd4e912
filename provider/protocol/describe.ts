import type { ErrorShape } from "./errors";

/** Detail of an error whose code only a newer release knows: that code. */
export const NEWER_CODE = "newerCode";

/**
 * An error in one line: code, sentence, causes, hint. Nothing is printed twice: a cause that an earlier sentence contains is
 * left out, since older hosts put one into the message too.
 */
export function describe(error: ErrorShape): string {
  const printed = [bare(error.message)];
  const causes: string[] = [];
  for (let at = error.cause; at; at = at.cause) {
    const text = bare(at.message);
    if (printed.some((earlier) => earlier.includes(text))) continue;
    printed.push(text);
    causes.push(` (cause: ${codeOf(at)}: ${sentence(text)})`);
  }
  const hint = printed.some((earlier) => earlier.includes(bare(error.hint))) ? "" : ` ${sentence(bare(error.hint))}`;
  return `${codeOf(error)}: ${sentence(bare(error.message))}${causes.join("")}${hint}`;
}

function codeOf({ code, details }: ErrorShape): string {
  const newer = details?.[NEWER_CODE];
  return typeof newer === "string" ? `${code} (${newer})` : code;
}

const sentence = (text: string) => (/[.!?…]$/.test(text) ? text : `${text}.`);

/** A sentence without its last full stop, and without one that stands before other punctuation because a sentence was put into another. */
function bare(message: string): string {
  return message
    .trim()
    .replace(/\.+$/, "")
    .replace(/(?<!\.)\.(?=[:;,](\s|$))/g, "")
    .replace(/(?<!\.)\.\.(?=\s)/g, ".");
}
