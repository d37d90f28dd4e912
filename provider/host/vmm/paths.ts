import { RUN } from "../../protocol/paths";

/** Folder of a VM's sockets, gone with the boot. */
/** One folder for each VM of this boot, by instance. */
export const RUN_FOLDERS = `${RUN}/vm`;
export const runFolder = (id: string) => `${RUN_FOLDERS}/${id}`;
export const monitorSocket = (id: string) => `${runFolder(id)}/qmp.sock`;
/** How the VM's last process ended, written by its unit: systemd itself forgets it. */
export const exitFile = (id: string) => `${runFolder(id)}/exit`;
/** Says that a verb stops the VM: its end is then not the guest's own wish. */
export const stoppedFile = (id: string) => `${runFolder(id)}/stopped`;
