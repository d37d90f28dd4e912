// Writes the package.json and lock file of a program that uses the packed package, so that npm takes for everything else
// the versions that this repository is developed with: node consumer.mjs TARBALL FOLDER
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const [tarball, folder] = process.argv.slice(2);
const ours = JSON.parse(readFileSync("package.json", "utf8"));
const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
const program = {
  name: "consumer",
  version: "0.0.0",
  private: true,
  dependencies: {
    "@pulumi/pulumi": ours.devDependencies["@pulumi/pulumi"],
    [ours.name]: `file:${path.relative(folder, tarball)}`,
    typescript: ours.devDependencies.typescript,
  },
  devDependencies: { "@types/node": ours.devDependencies["@types/node"] },
};
mkdirSync(folder, { recursive: true });
writeFileSync(path.join(folder, "package.json"), `${JSON.stringify(program, null, 2)}\n`);
lock.name = program.name;
lock.packages[""] = program;
writeFileSync(path.join(folder, "package-lock.json"), `${JSON.stringify(lock, null, 2)}\n`);
writeFileSync(path.join(folder, ".npmrc"), readFileSync(".npmrc"));
