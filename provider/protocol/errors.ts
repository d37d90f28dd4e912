interface ErrorKind {
  /** Whether repeating the same call, with nothing changed by hand, may succeed. */
  readonly retryable: boolean;
  /** When it is answered; one sentence. */
  readonly when: string;
  /** What a person does next; one sentence. */
  readonly hint: string;
}

/** Every error of both programs. Documentation is generated from this table. */
export const ERRORS = {
  invalid_request: {
    retryable: false,
    when: "An input or a request does not have the form it must have.",
    hint: "Correct the properties that are named.",
  },
  protocol_mismatch: {
    retryable: false,
    when: "A request or a record was written by a version that this one does not understand.",
    hint: "Use the newer of the two versions named.",
  },
  internal: {
    retryable: false,
    when: "The program reached an unexpected state.",
    hint: "Keep the message and report it; what was claimed is kept.",
  },
  host_unreachable: {
    retryable: true,
    when: "No SSH connection could be made; the message names hop and phase.",
    hint: "Check address, network and sshd; if the host will never come back, remove the resource with 'pulumi state delete'.",
  },
  host_key_mismatch: {
    retryable: false,
    when: "The host's key is unknown, revoked or not the one that is pinned.",
    hint: "Verify the fingerprint shown on the host's console, then set connection.hostKey or known_hosts.",
  },
  auth_failed: {
    retryable: false,
    when: "The server refused every credential, or a key could not be used.",
    hint: "Check connection.user and the key; the message says which were tried.",
  },
  sudo_refused: {
    retryable: false,
    when: "The user is not root and sudo did not run the program without a password.",
    hint: "Add the sudoers line of the README for this user, or connect as root.",
  },
  result_unknown: {
    retryable: true,
    when: "The connection ended before the host answered; the verb goes on there by itself.",
    hint: "Run the same command again: it finds what was done.",
  },
  host_not_ready: {
    retryable: true,
    when: "The host lacks something that is needed, or is shutting down; the message names it.",
    hint: "Provide what is named on the host, then run the same command again.",
  },
  store_mismatch: {
    retryable: false,
    when: "The host's store is missing, or is not the one this instance was made in.",
    hint: "Mount or restore /var/lib/vgpu and /etc/vgpu/store-id; if the host was reimaged, remove the resource with 'pulumi state delete'.",
  },
  discovery_failed: {
    retryable: true,
    when: "Information about the GPUs could not be read or parsed.",
    hint: "Check the host's kernel log and the files named.",
  },
  unknown_profile: {
    retryable: false,
    when: "No card of the host offers the profile.",
    hint: "Use one of the profiles that are listed.",
  },
  no_capacity: {
    retryable: true,
    when: "The profile exists, but nothing is free for it now.",
    hint: "Free a vGPU on this host or use another host.",
  },
  quarantined: {
    retryable: false,
    when: "Only virtual functions are left on which assignments have failed.",
    hint: "Repair the card, then lift the quarantine with 'vgpu-host vf-clear <VF>' or reboot the host.",
  },
  device_verify_failed: {
    retryable: true,
    when: "A virtual function does not read what was written to it.",
    hint: "Check the virtual function named; something else may be writing to it.",
  },
  device_busy: {
    retryable: true,
    when: "A virtual function is or may be in use, or its driver refuses.",
    hint: "End what uses the device, then run the same command again.",
  },
  inventory_ambiguous: {
    retryable: false,
    when: "A record on the host cannot be read, or the folder of instances is not known to be the store's, so what is claimed is unknown.",
    hint: "Repair the record named; or, when its instance is given up, move its whole folder out of /var/lib/vgpu/instances and delete it by name.",
  },
  liveness_ambiguous: {
    retryable: true,
    when: "Cannot determine whether a VM that claims the device is running.",
    hint: "Wait for the instance named to settle, then run the same command again.",
  },
  owned_by_other: {
    retryable: false,
    when: "An instance of this id belongs to another stack or resource.",
    hint: "Choose another name, or take it over with adopt: true.",
  },
  already_exists: {
    retryable: false,
    when: "An instance of this id exists, and another state holds it or may hold it.",
    hint: "Take it over with adopt: true, or choose another name.",
  },
  retained_instance: {
    retryable: false,
    when: "Only a delete-only remainder of a failed create is left of the instance.",
    hint: "Delete it to release what it holds.",
  },
  not_found: {
    retryable: false,
    when: "The store has no such instance.",
    hint: "Check the instance id, or run 'vgpu-host list'.",
  },
  store_failed: {
    retryable: true,
    when: "A record could not be written.",
    hint: "Check free space and the state of the file system of /var/lib/vgpu.",
  },
  lock_timeout: {
    retryable: true,
    when: "Another verb holds the lock; the message names it.",
    hint: "Wait until that verb has ended, then run the same command again.",
  },
  vmm_failed: {
    retryable: true,
    when: "QEMU did not boot the VM; the end of its output is in the message.",
    hint: "Correct what QEMU names, then run the same command again.",
  },
  vmm_exit_timeout: {
    retryable: true,
    when: "QEMU has not exited, or its exit cannot be confirmed.",
    hint: "Check the process named on the host, then run the same command again.",
  },
  vgpu_cleanup_pending: {
    retryable: true,
    when: "Something of the instance is left on the host and must still be cleaned up; the cause is inside.",
    hint: "Remove the cause, then run the same command again; reconcile retries the release too.",
  },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERRORS;

/** An error as plain data: on the wire and in the store. */
export interface ErrorShape {
  readonly code: ErrorCode;
  /** One sentence: what failed, where. */
  readonly message: string;
  readonly hint: string;
  readonly retryable: boolean;
  readonly details?: Record<string, unknown> | undefined;
  /** What lies beneath, when this error wraps another. */
  readonly cause?: ErrorShape | undefined;
}

const known = new Set(Object.keys(ERRORS));

export const isErrorCode = (code: string): code is ErrorCode => known.has(code);

const MARKER = "pulumi-vgpu/error";

export interface ErrorParts {
  readonly hint?: string;
  readonly details?: Record<string, unknown>;
  readonly cause?: unknown;
  readonly retryable?: boolean;
}

/**
 * An expected failure, of the same form in both programs. Recognise it with {@link isVgpuError}: `instanceof` fails
 * across two copies of the package.
 */
export class VgpuError extends Error {
  readonly marker = MARKER;
  override readonly name = "VgpuError";
  readonly code: ErrorCode;
  readonly hint: string;
  readonly retryable: boolean;
  readonly details: Record<string, unknown> | undefined;
  /** What lies beneath, when this error wraps another. */
  override readonly cause: (Error & { readonly code?: string }) | undefined;

  constructor(code: ErrorCode, message: string, { hint, details, cause, retryable }: ErrorParts = {}) {
    super(message);
    this.code = code;
    this.hint = hint ?? ERRORS[code].hint;
    this.retryable = retryable ?? ERRORS[code].retryable;
    this.details = details;
    this.cause = cause === undefined || cause instanceof Error ? cause : fromShape(toShape(cause));
  }
}

export function isVgpuError(error: unknown): error is VgpuError {
  return typeof error === "object" && error !== null && (error as { marker?: unknown }).marker === MARKER;
}

/** The plain shape of any thrown value. */
export function toShape(error: unknown): ErrorShape {
  if (isVgpuError(error) || isShape(error)) {
    const { code, message, hint, retryable, details, cause } = error;
    return { code, message, hint, retryable, ...(details && { details }), ...(cause && { cause: toShape(cause) }) };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: "internal", message, hint: ERRORS.internal.hint, retryable: false };
}

/** An error again, from its plain shape. */
export function fromShape({ code, message, hint, retryable, details, cause }: ErrorShape): VgpuError {
  const parts = { hint, retryable, ...(details && { details }), ...(cause && { cause: fromShape(cause) }) };
  return new VgpuError(code, message, parts);
}

/** The same error with another message or another hint. */
export function reworded(error: VgpuError, { message = error.message, hint = error.hint }): VgpuError {
  const { code, retryable, details, cause } = error;
  return new VgpuError(code, message, { hint, retryable, ...(details && { details }), ...(cause && { cause }) });
}

function isShape(value: unknown): value is ErrorShape {
  return (
    typeof value === "object" && value !== null && known.has(String((value as ErrorShape).code)) && "hint" in value
  );
}
