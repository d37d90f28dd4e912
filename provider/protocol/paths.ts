/** Where things are on a GPU host. */
export const PROGRAM = "/usr/local/lib/vgpu";
export const VERSIONS = `${PROGRAM}/versions`;
export const STATE = "/var/lib/vgpu";
export const STORE_FILE = `${STATE}/store.json`;
export const INSTANCES = `${STATE}/instances`;
export const IMAGES = `${STATE}/images`;
export const SETTINGS = "/etc/vgpu";
export const STORE_ID_FILE = `${SETTINGS}/store-id`;
export const CONFIG_FILE = `${SETTINGS}/config.json`;
export const RUN = "/run/vgpu";
/** What may be a file system of its own and must be mounted before one of our units runs. */
export const MOUNTS = [PROGRAM, STATE, INSTANCES, IMAGES].join(" ");
