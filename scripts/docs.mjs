// `npm run docs`: writes the pages that are generated from the code, and the generated parts of the README. With `--check` it writes
// nothing and ends with 1 if one is out of date or a link of the docs leads nowhere.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brokenLinks } from "./docs-links.mjs";
import { errorsPage } from "./errors-doc.mjs";
import { inputsTable, outputsSentence } from "./inputs-doc.mjs";
import { optionsPage } from "./options-doc.mjs";
import { settingsPage } from "./settings-doc.mjs";

/** Every generated page and what makes it. */
const PAGES = {
  "docs/errors.md": errorsPage,
  "docs/host-settings.md": settingsPage,
  "docs/options.md": optionsPage,
  "README.md": readme,
};

/** Parts of the README: what stands between `<!-- name -->` and `<!-- /name -->`. */
const PARTS = { inputs: inputsTable, outputs: outputsSentence };

function readme(root) {
  return Object.entries(PARTS).reduce(
    (text, [name, part]) => {
      const marked = new RegExp(`(?<=<!-- ${name} -->\n).*?(?=\n<!-- /${name} -->)`, "s");
      if (!marked.test(text)) throw new Error(`README.md has no part <!-- ${name} -->`);
      return text.replace(marked, () => part(root));
    },
    readFileSync(join(root, "README.md"), "utf8"),
  );
}

const root = join(import.meta.dirname, "..");
const problems = [];
for (const [file, page] of Object.entries(PAGES)) {
  const path = join(root, file);
  const text = page(root);
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) problems.push(`${file} is out of date; run: npm run docs`);
}
problems.push(...brokenLinks(root));
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
