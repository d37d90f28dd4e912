/** What the model's variables are called in a counterexample; `seen` and the like mean nothing on the host. */
const NAMES: Record<string, string> = {
  r_ph: "record's phase of",
  r_vf: "claim of",
  r_bt: "claim is of this boot of",
  r_des: "desired of",
  r_del: "deleting of",
  r_ret: "retained of",
  ty: "type of VF",
  mk: "mark on VF",
  fop: "somebody's handle on VF",
  vm: "VM of",
  il: "lock of",
  vl: "lock of VF",
  c_st: "writing child of verb",
  o_st: "writing child without verb",
  oreq: "start request without verb of",
  lost: "record lost",
  staled: "old record back",
  fin: "end phase",
};
const VALUES: Record<string, readonly string[]> = {
  r_ph: ["none", "", "claimed", "complete"],
  mk: ["none", "A", "B"],
  vm: ["dead", "unit up", "running", "gone, handle lingers"],
  c_st: ["none", "forked", "file open", "done"],
  o_st: ["none", "forked", "file open"],
};
const VERBS = ["", "ensure", "stop", "delete", "reconcile"];
/** Steps after which a verb ends by itself. */
const ENDS = ["E_OK", "E_LEFT", "P_LOOK", "P_DONE", "D_DONE", "Q_SNEXT"];

/** Makes sentences of a replayed trail: who did which step, and what it changed. */
export function stepsOf(replay: string, model: string): string[] {
  const steps = new Map<number, { name: string; text: string }>();
  const defined = model.slice(model.indexOf("#define IDLE"));
  for (const [, name = "", number, text] of defined.matchAll(/^#define ([A-Z]\w*) (\d+)(?: +\/\* (.*?) \*\/)?$/gm))
    if (!steps.has(Number(number)) && /^(IDLE|W1|SYNC|[VECBPDROQ]_\w+)$/.test(name))
      steps.set(Number(number), { name, text: text ?? "" });

  const values = new Map<string, number>();
  const value = (name: string, index: number | string) => values.get(`${name}[${index}]`) ?? 0;
  const sentences: string[] = [];
  let who = "";
  let changes: string[] = [];
  const flush = (what: string) => {
    if (changes.length > 0 || what !== "")
      sentences.push(`${who}${what}${changes.length > 0 ? `: ${changes.join(", ")}` : ""}`);
    changes = [];
  };
  for (const line of replay.split("\n")) {
    const actor = /proc\s+\d+ \((Verb|Env)\D*:?(\d*)/.exec(line);
    if (actor) {
      const pid = Number(/proc\s+(\d+)/.exec(line)?.[1]) - 1;
      const next = actor[1] === "Env" ? "meanwhile" : `verb ${pid}`;
      if (next !== who) flush("");
      who = next;
    }
    const [, name, index, text] = /^\s+(\w+)(?:\[(\d+)\])? = (\d+)$/.exec(line) ?? [];
    if (name === undefined || text === undefined) continue;
    const key = `${name}[${index ?? 0}]`;
    const [before, now] = [values.get(key) ?? 0, Number(text)];
    if (before === now) continue;
    values.set(key, now);
    if (name === "pc") {
      const [from, to] = [steps.get(before), steps.get(now)];
      const about = `${VERBS[value("vb", index ?? 0)]} ${"AB"[value("me", index ?? 0)]}`;
      if (from && from.text !== "" && from.name !== "IDLE") flush(`, ${about}: ${from.text}`);
      else flush("");
      if (to?.name === "IDLE") flush(ENDS.includes(from?.name ?? "") ? `, ${about}, ends` : `, ${about}, is killed`);
    } else if (NAMES[name]) {
      const whose = index === undefined ? "" : ` ${/^(r_|vm|il|oreq)/.test(name) ? "AB"[Number(index)] : index}`;
      changes.push(`${NAMES[name]}${whose} = ${VALUES[name]?.[now] ?? now}`);
    }
  }
  flush("");
  return sentences;
}
