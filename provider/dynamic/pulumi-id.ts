/** The Pulumi id of an instance: permanent, it stands in states. */
export const pulumiId = (host: string, instanceId: string): string => `${host}/${instanceId}`;

/** The instance id in a Pulumi id. */
export const instanceOf = (id: string): string => id.slice(id.lastIndexOf("/") + 1);
