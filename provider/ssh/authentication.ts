import { readFile } from "node:fs/promises";
import type { AnyAuthMethod } from "ssh2";
import { VgpuError } from "../protocol/errors";
import { KeyProblem, readPrivateKey } from "./keys";
import type { Credential, Hop } from "./target";

/** What one connection offers to the server, all of it from one source. */
export interface Offer {
  readonly source: string;
  readonly methods: readonly AnyAuthMethod[];
}

/** Why a default credential was passed over. */
export interface PassedOver {
  readonly passedOver: string;
}

/**
 * The offer of one credential.
 *
 * @throws VgpuError `auth_failed` when a credential that somebody gave cannot be used.
 */
export async function offerOf(hop: Hop, credential: Credential): Promise<Offer | PassedOver> {
  const { source } = credential;
  const username = hop.user;
  switch (credential.kind) {
    case "password": {
      const { password } = credential;
      // Servers that ask through PAM only have another name for the same question.
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
    case "agent":
      return { source, methods: [{ type: "agent", username, agent: credential.socket }] };
    case "key":
    case "file":
      try {
        const text = credential.kind === "key" ? credential.text : await readFile(credential.path, "utf8");
        const key = readPrivateKey(text, credential.passphrase);
        return { source, methods: [{ type: "publickey", username, key }] };
      } catch (error) {
        const why = error instanceof KeyProblem ? error.message : "it cannot be read";
        if (credential.kind === "file" || !credential.required) return { passedOver: `${source}: ${why}` };
        throw new VgpuError("auth_failed", `The private key of ${source} cannot be used: ${why}.`, {
          hint: "Give the private key as ssh-keygen writes it, and its passphrase where it has one.",
          details: { host: hop.host, phase: "authenticate" },
        });
      }
  }
}
