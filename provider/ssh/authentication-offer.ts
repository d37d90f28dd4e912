import { readFile } from "node:fs/promises";
import type { AnyAuthMethod } from "ssh2";
import { VgpuError } from "../protocol/errors";
import { agentProblem } from "./agent";
import { KeyProblem, readPrivateKey } from "./keys";
import type { Credential, Hop } from "./target";

/** The authentication methods that one connection offers to the server, all from one source. */
export interface AuthenticationOffer {
  readonly source: string;
  readonly methods: readonly AnyAuthMethod[];
}

/** A default credential that is not offered: its source and the reason, or undefined for a file that does not exist. */
interface SkippedCredential {
  readonly skipped: string | undefined;
}

/**
 * The offer of one credential.
 *
 * @throws VgpuError `auth_failed` when a credential that was configured cannot be used.
 */
export async function authenticationOffer(
  hop: Hop,
  credential: Credential,
): Promise<AuthenticationOffer | SkippedCredential> {
  const { source } = credential;
  const username = hop.user;
  switch (credential.kind) {
    case "password": {
      const { password } = credential;
      // With PAM some servers accept a password as keyboard-interactive only.
      return {
        source,
        methods: [
          { type: "password", username, password },
          {
            type: "keyboard-interactive",
            username,
            prompt: (_name, _instructions, _language, prompts, finish) => finish(prompts.map(() => password)),
          },
        ],
      };
    }
    case "agent": {
      const problem = await agentProblem(credential.socket);
      if (problem !== undefined) return { skipped: `${source}: ${problem}` };
      return { source, methods: [{ type: "agent", username, agent: credential.socket }] };
    }
    case "key":
    case "file":
      try {
        const text = credential.kind === "key" ? credential.text : await readFile(credential.path, "utf8");
        const key = readPrivateKey(text, credential.passphrase);
        return { source, methods: [{ type: "publickey", username, key }] };
      } catch (error) {
        if (credential.kind === "file" && (error as NodeJS.ErrnoException).code === "ENOENT")
          return { skipped: undefined };
        const reason = error instanceof KeyProblem ? error.message : "it cannot be read";
        if (credential.kind === "file" || !credential.required) return { skipped: `${source}: ${reason}` };
        throw new VgpuError("auth_failed", `The private key of ${source} cannot be used: ${reason}.`, {
          hint: "Use the private key as ssh-keygen writes it, with its passphrase if it has one.",
          details: { host: hop.host, phase: "authenticate" },
        });
      }
  }
}
