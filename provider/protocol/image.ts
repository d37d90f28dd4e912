import * as z from "zod/mini";
import { plainText } from "./names";

/** Where a disk comes from, as the host sees it. */
export const imageSource = z.discriminatedUnion("kind", [
  /** A file that is already on the host. */
  z.object({ kind: z.literal("hostPath"), path: z.string().check(z.startsWith("/")) }),
  /** Content that the operator's machine has uploaded, or will upload when the host asks for it. */
  z.object({ kind: z.literal("content"), sha256: z.string().check(z.regex(/^[0-9a-f]{64}$/)) }),
  /** Content that the host downloads and checks. */
  z.object({ kind: z.literal("url"), url: z.url(), sha256: z.string().check(z.regex(/^[0-9a-f]{64}$/)) }),
]);
export type ImageSource = z.infer<typeof imageSource>;

/**
 * A value that has one of several forms: `formOf` chooses the form by looking at the value, so that the problems reported are those of the
 * form that was meant.
 */
export const oneOf = <Value>(formOf: (value: unknown) => z.ZodMiniType) =>
  z.custom<Value>().check((context) => {
    const { error } = formOf(context.value).safeParse(context.value);
    for (const issue of error?.issues ?? []) context.issues.push({ ...issue, input: context.value } as never);
  });

/** A path on the host that stays where it seems to be. */
const hostPath = plainText(4096).check(
  z.startsWith("/", "an absolute path on the host"),
  z.refine((path) => !path.split("/").includes(".."), "a path without '..'"),
);
export const sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits, lower case"));

/** Where a disk comes from, as the program writes it. */
export type ImageInput = { file: string } | { hostPath: string } | { url: string; sha256: string };
const forms = {
  file: z.strictObject({ file: plainText(4096) }),
  hostPath: z.strictObject({ hostPath }),
  url: z.strictObject({ url: z.url({ protocol: /^https?$/, error: "an http or https URL" }), sha256 }),
};
export const imageInput = oneOf<ImageInput>((value) => {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const form = (Object.keys(forms) as Array<keyof typeof forms>).find((key) => isObject && key in value);
  return form ? forms[form] : z.never({ error: "one of { file }, { hostPath } or { url, sha256 }" });
});

/** The host's form of an image; `contentSha256` is the hash of the operator's file. */
export function toImageSource(image: ImageInput | undefined, contentSha256: string | undefined): ImageSource | null {
  if (!image) return null;
  if ("hostPath" in image) return { kind: "hostPath", path: image.hostPath };
  if ("url" in image) return { kind: "url", url: image.url, sha256: image.sha256 };
  return { kind: "content", sha256: contentSha256 ?? "" };
}
