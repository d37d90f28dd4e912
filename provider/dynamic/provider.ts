import { checkInputs } from "./check";
import { createInstance } from "./create";
import { deleteInstance } from "./delete";
import { type Difference, differenceOf } from "./diff";
import { guarded } from "./failure";
import { logOf } from "./log";
import { instanceOf } from "./pulumi-id";
import { readInstance } from "./read";
import { configure as keep, type StackConfig } from "./settings";
import { updateInstance } from "./update";
import { forEngine, type Problem } from "./validation";

// What the stub in every state calls, by these names and with these arguments: permanent. A state written by an older
// release runs this code, so each method works with fewer properties than today's.

// After the CLI is killed nothing reads this output, and the verb goes on. Pulumi's bridge prints each unhandled error, EPIPE too, which
// would repeat for ever.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

type Values = Record<string, unknown>;

export const configure = (request: { config: StackConfig }): Promise<void> => guarded(() => keep(request.config));

export const check = (_olds: Values, news: Values): Promise<{ inputs: Values; failures: Problem[] }> =>
  guarded(async () => {
    const { inputs, failures } = await checkInputs(news);
    return { inputs, failures: failures.map(forEngine) };
  });

export const diff = (id: string, olds: Values, news: Values): Promise<Difference> =>
  guarded(async () => {
    const log = logOf(instanceOf(id));
    return differenceOf(olds, news, log.info);
  });

export const create = (inputs: Values): Promise<{ id: string; outs: object }> => guarded(() => createInstance(inputs));

export const read = (id: string, props: Values = {}): Promise<{ id?: string; props?: object }> =>
  guarded(() => readInstance(id, props));

export const update = (id: string, olds: Values, news: Values): Promise<{ outs: object }> =>
  guarded(() => updateInstance(id, olds, news));

const remove = (id: string, props: Values): Promise<void> => guarded(() => deleteInstance(id, props));

export { remove as delete };
