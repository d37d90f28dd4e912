// Bundles the host program and packs it: dist/host/program.tgz holds program.cjs, vgpu-host.cjs that runs it, launchers and VERSION, byte
// for byte the same for the same sources, since a version's name on a host is the hash of this file.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const root = join(import.meta.dirname, "..");
const out = join(root, "dist", "host");
const content = join(out, "content");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

// What Node.js runs first. That file has old syntax only, so an older Node.js comes as far as this.
const nodeCheck = `if(+process.versions.node.split(".")[0]<18){console.log(JSON.stringify({type:"result",ok:false,warnings:[],view:null,error:{code:"host_not_ready",message:"Node.js 18 or newer is needed on the host, found "+process.versions.node+".",hint:"Install Node.js 18 or newer on the host, then run the same command again.",retryable:true}}));process.exit(1)}`;

rmSync(out, { recursive: true, force: true });
mkdirSync(content, { recursive: true });
const bundle = (from, to, more) =>
  build({
    entryPoints: [join(root, from)],
    outfile: join(content, to),
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node18",
    minify: true,
    legalComments: "none",
    // The rest of zod comes as ES modules; with this one as CommonJS, parts of it would come twice.
    alias: { "zod/v4/locales/en.cjs": "zod/v4/locales/en.js" },
    logLevel: "warning",
    ...more,
  });
await bundle("provider/host/main.ts", "program.cjs", { charset: "ascii" });
writeFileSync(join(content, "vgpu-host.cjs"), `${nodeCheck}\nrequire("./program.cjs");\n`);
for (const launcher of ["vgpu-host", "vgpu-reconcile"]) {
  copyFileSync(join(root, "provider/host/launchers", launcher), join(content, launcher));
  chmodSync(join(content, launcher), 0o755);
}
writeFileSync(join(content, "VERSION"), `${version}\n`);

const names = ["VERSION", "program.cjs", "vgpu-host", "vgpu-host.cjs", "vgpu-reconcile"];
const same = ["--format=ustar", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
const tar = execFileSync("tar", ["-C", content, ...same, "-cf", "-", ...names], { maxBuffer: 64 * 1024 * 1024 });
const program = gzipSync(tar, { level: 9 });
writeFileSync(join(out, "program.tgz"), program);
writeFileSync(
  join(out, "program.json"),
  `${JSON.stringify({ sha256: createHash("sha256").update(program).digest("hex"), version })}\n`,
);
rmSync(content, { recursive: true });
