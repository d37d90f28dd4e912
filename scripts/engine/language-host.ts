/**
 * Stands in for Pulumi's own Node language host, which cannot be had as a Go module, where the CLI was built from source:
 * answers the language service for a Node program and runs it with the SDK that the program itself has installed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { LanguageRuntimeService } from "@pulumi/pulumi/proto/language_grpc_pb";
import {
  AboutResponse,
  GetProgramDependenciesResponse,
  GetRequiredPackagesResponse,
  GetRequiredPluginsResponse,
  type InstallDependenciesRequest,
  InstallDependenciesResponse,
  type LanguageHandshakeRequest,
  LanguageHandshakeResponse,
  type RunRequest,
  RunResponse,
  RuntimeOptionsResponse,
} from "@pulumi/pulumi/proto/language_pb";
import { PluginInfo } from "@pulumi/pulumi/proto/plugin_pb";
import { version } from "@pulumi/pulumi/version";
import { Empty } from "google-protobuf/google/protobuf/empty_pb";

/** What the SDK's runner exits with when it has told the user about the failure already. */
const ALREADY_REPORTED = 32;

let engine = process.argv.slice(2).find((word) => !word.startsWith("-")) ?? "";
const running = new Set<ChildProcess>();

type Answer<T> = (error: null, response: T) => void;
const answering =
  <T>(response: () => T) =>
  (_call: unknown, answer: Answer<T>) =>
    answer(null, response());

/** The program and its children run as `node` of PATH, not as whatever runs this file. */
function start(
  command: string,
  args: string[],
  directory: string,
  environment: NodeJS.ProcessEnv,
  output: "inherit" | "pipe",
) {
  const child = spawn(command, args, { cwd: directory, env: environment, stdio: ["ignore", output, output] });
  running.add(child);
  child.once("close", () => running.delete(child));
  child.once("error", () => running.delete(child));
  return child;
}

function runnerOf(directory: string): string {
  try {
    return createRequire(path.join(directory, "package.json")).resolve("@pulumi/pulumi/cmd/run");
  } catch {
    throw new Error(`@pulumi/pulumi is not installed for the program in ${directory}: run npm install there`);
  }
}

function runProgram(request: RunRequest, done: (failure: string | null, bail?: boolean) => void): void {
  const info = request.getInfo();
  const directory = info?.getProgramDirectory() || request.getPwd();
  const options = (info?.getOptions()?.toJavaScript() ?? {}) as { typescript?: boolean; nodeargs?: string };
  const flags = {
    monitor: request.getMonitorAddress(),
    engine,
    organization: request.getOrganization(),
    project: request.getProject(),
    stack: request.getStack(),
    pwd: request.getPwd(),
    "root-directory": info?.getRootDirectory() ?? "",
    parallel: request.getParallel() ? String(request.getParallel()) : "",
  };
  const config: Record<string, string> = {};
  request.getConfigMap().forEach((value, key) => {
    config[key] = value;
  });
  const child = start(
    "node",
    [
      ...(options.nodeargs?.split(" ").filter(Boolean) ?? []),
      runnerOf(directory),
      ...Object.entries(flags).flatMap(([name, value]) => (value ? [`--${name}=${value}`] : [])),
      ...(request.getDryrun() ? ["--dry-run"] : []),
      info?.getEntryPoint() || ".",
      ...request.getArgsList(),
    ],
    directory,
    {
      ...process.env,
      PULUMI_CONFIG: JSON.stringify(config),
      PULUMI_CONFIG_SECRET_KEYS: JSON.stringify(request.getConfigsecretkeysList()),
      PULUMI_NODEJS_TYPESCRIPT: String(options.typescript !== false),
    },
    "inherit",
  );
  child.once("error", (error) => done(`node could not be started: ${error.message}`));
  child.once("exit", (code, signal) => {
    if (code === 0) done(null);
    else if (code === ALREADY_REPORTED) done(null, true);
    else done(signal ? `the program was ended by ${signal}` : `the program ended with exit status ${code}`);
  });
}

function run(call: ServerUnaryCall<RunRequest, RunResponse>, answer: sendUnaryData<RunResponse>): void {
  let answered = false;
  const done = (failure: string | null, bail = false) => {
    if (answered) return;
    answered = true;
    const response = new RunResponse();
    if (failure !== null) response.setError(failure);
    response.setBail(bail);
    answer(null, response);
  };
  try {
    runProgram(call.request, done);
  } catch (error) {
    done((error as Error).message);
  }
}

/** `pulumi install`: npm in the program's folder, its output passed on as it comes. */
function installDependencies(
  call: ServerWritableStream<InstallDependenciesRequest, InstallDependenciesResponse>,
): void {
  const child = start("npm", ["install"], call.request.getDirectory(), process.env, "pipe");
  const pass = (set: (response: InstallDependenciesResponse, text: Buffer) => void) => (text: Buffer) => {
    const response = new InstallDependenciesResponse();
    set(response, text);
    call.write(response);
  };
  child.stdout?.on(
    "data",
    pass((response, text) => response.setStdout(text)),
  );
  child.stderr?.on(
    "data",
    pass((response, text) => response.setStderr(text)),
  );
  const fail = (details: string) => call.emit("error", { code: status.INTERNAL, details });
  child.once("error", (error) => fail(`npm could not be started: ${error.message}`));
  child.once("close", (code) => (code === 0 ? call.end() : fail(`npm install ended with exit status ${code}`)));
}

function endChildren(signal: NodeJS.Signals): void {
  for (const child of running) child.kill(signal);
}

// A killed engine says nothing; without this we and the program would stay behind.
const parent = process.ppid;
setInterval(() => {
  if (process.ppid === parent) return;
  endChildren("SIGTERM");
  process.exit(1);
}, 500).unref();
for (const signal of ["SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    endChildren(signal);
    process.exit(1);
  });
}

const server = new Server();
server.addService(LanguageRuntimeService, {
  handshake: (
    call: ServerUnaryCall<LanguageHandshakeRequest, LanguageHandshakeResponse>,
    answer: Answer<LanguageHandshakeResponse>,
  ) => {
    engine = call.request.getEngineAddress() || engine;
    answer(null, new LanguageHandshakeResponse());
  },
  getPluginInfo: answering(() => new PluginInfo().setVersion(version)),
  about: answering(() => new AboutResponse().setExecutable(process.execPath).setVersion(process.version)),
  getRequiredPlugins: answering(() => new GetRequiredPluginsResponse()),
  getRequiredPackages: answering(() => new GetRequiredPackagesResponse()),
  getProgramDependencies: answering(() => new GetProgramDependenciesResponse()),
  runtimeOptionsPrompts: answering(() => new RuntimeOptionsResponse()),
  run,
  installDependencies,
  cancel: (_call: unknown, answer: Answer<Empty>) => {
    endChildren("SIGINT");
    answer(null, new Empty());
  },
});
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port); // the engine reads our port from the first line
});
