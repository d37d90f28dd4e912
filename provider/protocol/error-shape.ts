import * as z from "zod/mini";
import { NEWER_CODE } from "./describe";
import { type ErrorShape, isErrorCode } from "./errors";

/** An error as it is on the wire and in records. A code that only a newer release knows is `internal` here, and kept among the details. */
export const errorShape: z.ZodMiniType<ErrorShape> = z.lazy(() =>
  z.pipe(
    z.object({
      code: z.string(),
      message: z.string(),
      hint: z.string(),
      retryable: z.boolean(),
      details: z.optional(z.record(z.string(), z.unknown())),
      cause: z.optional(errorShape),
    }),
    z.transform(
      ({ code, details, ...rest }): ErrorShape =>
        isErrorCode(code)
          ? { code, ...rest, ...(details && { details }) }
          : { code: "internal", ...rest, details: { ...details, [NEWER_CODE]: code } },
    ),
  ),
);
