import * as z from "zod/mini";
import { specShape } from "./inputs";

export type { ImageSource } from "./image";
export type { RestartPolicy } from "./values";

/**
 * What a VM shall be: the part of an instance's inputs that the host acts on, in the host's units, by the table of inputs.
 * A spec that is equal by value is the same VM.
 */
export const spec = z.object(specShape);
export type Spec = z.infer<typeof spec>;
