import { config } from "zod/mini";
import en from "zod/v4/locales/en.cjs";

// The small form of zod, which makes the host program start quickly, brings no words of its own for what is wrong.
config(en());
