// Finds links of the docs that lead nowhere: to a file or a heading that is not there, or, from a page that the package holds, to a
// file that it does not hold, since such a link works in a checkout only.
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** Pages that are read in a checkout only. */
const IN_CHECKOUT = ["CONTRIBUTING.md", "docs/internals/*.md", "scripts/README.md", "examples/*/README.md"];

/** The anchor that a heading gets on GitHub and npm. */
const anchorOf = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

const anchors = (text) => [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading.trim()));

export function brokenLinks(root) {
  const inPackage = pages(root, JSON.parse(readFileSync(join(root, "package.json"), "utf8")).files);
  return [...inPackage, ...pages(root, IN_CHECKOUT)].flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8").replace(/^```.*?^```/gms, "");
    return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link]) => {
      if (/^[a-z]+:/.test(link)) return [];
      const [path, anchor] = link.split("#");
      const file = path ? normalize(join(dirname(page), path)) : page;
      const wrong = (why) => [`${page}: the link ${link} ${why}`];
      if (!existsSync(join(root, file))) return wrong("leads nowhere");
      if (inPackage.includes(page) && !inPackage.includes(file))
        return wrong("leads to what the package does not hold");
      if (anchor && !anchors(readFileSync(join(root, file), "utf8")).includes(anchor))
        return wrong("names a heading that is not there");
      return [];
    });
  });
}

const pages = (root, patterns) =>
  globSync(patterns, { cwd: root }).filter((file) => file.endsWith(".md") || file === "LICENSE");
