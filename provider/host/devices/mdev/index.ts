import { mdevUuid as uuidText } from "../../../protocol/names";
import type { Device, Framework } from "../framework";
import { firstLook } from "../handles";
import { assign } from "./assign";
import { removeOnce, scanTargetOf } from "./clear";
import { discoverMdevs, offersMdevs } from "./discovery";
import { mdevNow } from "./find";
import { reportForeign } from "./foreign";
import { mdevMarks, readMark, writeMark } from "./marks";
import { mdevPath } from "./paths";
import { readStandings } from "./standing";
import { whyNotSwept } from "./sweep";

/** A vGPU is an mdev: made for one claim under a uuid of its own, on a device that offers its type, and never again. */
export const mdev: Framework = {
  name: "mdev",
  reusesDevices: false,
  canShareDevice: true,
  isOnHost: offersMdevs,
  discover: discoverMdevs,
  readStandings,
  nameClaim: (host) => {
    const mdevUuid = host.clock.uuid();
    return { devicePath: mdevPath(mdevUuid), mdevUuid };
  },
  malformed: ({ mdevUuid }) => (uuidText.safeParse(mdevUuid).success ? undefined : "on an mdev without a uuid"),
  nameOf: ({ vf, mdevUuid }) => `mdev ${mdevUuid} on ${vf}`,
  assign,
  handles: (host, device) => firstLook(host, scanTargetOf(device)),
  readType: mdevNow,
  clear: removeOnce,
  readMark,
  writeMark,
  removeMark: (host, { mdevUuid }, instance) => mdevMarks.remove(host, mdevUuid, instance),
  nameOfMark: (name) => `mdev ${name}`,
  markFolder: mdevMarks.folder,
  markNames: mdevMarks.names,
  async markedDevice(host, mdevUuid): Promise<Device | undefined> {
    const mark = await mdevMarks.read(host, mdevUuid);
    return mark && { framework: "mdev", vf: mark.vf, typeId: mark.typeId, mdevUuid, instance: mark.instance };
  },
  whyNotSwept,
  reportForeign,
};
