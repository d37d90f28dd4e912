import { VgpuError } from "../protocol/errors";
import type { InstanceView } from "../protocol/view";

/** What is known of an instance after a verb failed: what the host reported, null for "nothing is left of it", or nothing at all. */
export type Aftermath = InstanceView | null | "unknown";

/** A failure of a verb that was sent: it may have changed something on the host. Every other failure changed nothing. */
export class SentFailure extends VgpuError {
  constructor(
    { code, message, hint, retryable, details, cause }: VgpuError,
    readonly after: Aftermath,
    /** The store that answered; `""` when none did. */
    readonly storeId = "",
  ) {
    super(code, message, { hint, retryable, ...(details && { details }), ...(cause && { cause }) });
  }
}
