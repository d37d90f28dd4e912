import { RUN } from "../../protocol/paths";

/** Folders of the VMs of this boot, by instance: sockets and how they ended. */
export const RUN_FOLDERS = `${RUN}/vm`;
export const runFolder = (id: string) => `${RUN_FOLDERS}/${id}`;
export const monitorSocket = (id: string) => `${runFolder(id)}/qmp.sock`;
/** How the VM's last process ended, written by its unit: systemd itself forgets it. */
export const exitFile = (id: string) => `${runFolder(id)}/exit`;
/** Exists while a verb stops the VM: its end is then not the guest's own shutdown. */
export const stoppedFile = (id: string) => `${runFolder(id)}/stopped`;
