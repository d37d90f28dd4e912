import { config } from "zod/mini";
import en from "zod/v4/locales/en.cjs";

// zod/mini, which lets the host program start quickly, has no messages of its own.
config(en());
