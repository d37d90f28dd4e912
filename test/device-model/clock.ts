/** Time as the model sees it: real in the simulated host, stopped and stepped in tests. */
export interface Clock {
  /** Milliseconds since any fixed moment; never goes back. */
  now(): number;
  /** Runs `action` once, later; the function returned takes it back. */
  schedule(ms: number, action: () => void): () => void;
}

export const realClock: Clock = {
  now: () => performance.now(),
  schedule: (ms, action) => {
    const timer = setTimeout(action, ms);
    return () => clearTimeout(timer);
  },
};

export const sleep = (clock: Clock, ms: number) => new Promise<void>((resolve) => clock.schedule(ms, resolve));
