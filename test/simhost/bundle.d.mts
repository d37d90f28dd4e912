export const here: string;
export function bundle(): Promise<string>;
