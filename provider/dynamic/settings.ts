/** What Pulumi hands to `configure`: the stack's configuration. */
export interface StackConfig {
  get(key: string): string | undefined;
}

let config: Promise<StackConfig> = Promise.resolve({ get: () => undefined });

/** Keeps the stack's configuration. The bridge does not await this for calls that run beside it: they await {@link settings}. */
export function configure(given: StackConfig): Promise<void> {
  config = Promise.resolve(given);
  return config.then(() => {});
}

export interface ProviderSettings {
  /** `VGPU_<NAME>` of the environment. */
  readonly environment: (name: string) => string | undefined;
  /** `vgpu:<name>` of the stack's configuration. */
  readonly stack: (name: string) => string | undefined;
}

/** Whether the user wants this instance to be taken over, beside what the program says: instance ids with commas between them. */
export function adopts({ environment, stack }: ProviderSettings, instance: string): boolean {
  const named = [environment("ADOPT"), stack("adopt")].flatMap((list) => list?.split(",") ?? []);
  return named.some((id) => id.trim() === instance);
}

export async function settings(): Promise<ProviderSettings> {
  const stack = await config;
  return {
    environment: (name) => process.env[`VGPU_${name}`] || undefined,
    stack: (name) => stack.get(`vgpu:${name}`) || undefined,
  };
}
