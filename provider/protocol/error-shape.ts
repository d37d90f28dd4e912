import * as z from "zod/mini";
import { type ErrorShape, isErrorCode } from "./errors";

/** An error as it stands on the wire and in records. A code that only a newer release knows is `internal` here. */
export const errorShape: z.ZodMiniType<ErrorShape> = z.lazy(() =>
  z.object({
    code: z.pipe(
      z.string(),
      z.transform((code: string) => (isErrorCode(code) ? code : "internal")),
    ),
    message: z.string(),
    hint: z.string(),
    retryable: z.boolean(),
    details: z.optional(z.record(z.string(), z.unknown())),
    cause: z.optional(errorShape),
  }),
);
