import { connect } from "node:net";

const TIMEOUT_MS = 5_000;
/** Message types of the SSH agent protocol (draft-ietf-sshm-ssh-agent). */
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
/** Length (4 bytes), type (1 byte) and the number of keys (4 bytes). */
const HEADER_LENGTH = 9;

/** Why an SSH agent cannot be used, or undefined when it has keys. ssh2 itself waits for an agent without a limit. */
export function agentProblem(socketPath: string, timeoutMs = TIMEOUT_MS): Promise<string | undefined> {
  return new Promise((resolve) => {
    let reply = Buffer.alloc(0);
    const socket = connect(socketPath);
    const finish = (problem: string | undefined) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(problem);
    };
    const timer = setTimeout(() => finish(`it did not answer within ${timeoutMs / 1000} s`), timeoutMs);
    socket.on("connect", () => socket.write(Buffer.from([0, 0, 0, 1, REQUEST_IDENTITIES])));
    socket.on("error", (error: NodeJS.ErrnoException) => finish(`cannot connect to it (${error.code ?? "error"})`));
    socket.on("close", () => finish("it closed the connection"));
    socket.on("data", (chunk) => {
      reply = Buffer.concat([reply, chunk]);
      if (reply.length < HEADER_LENGTH) return;
      const answered = reply[4] === IDENTITIES_ANSWER;
      if (!answered) return finish("it refused to list its keys");
      finish(reply.readUInt32BE(5) > 0 ? undefined : "it has no keys");
    });
  });
}
