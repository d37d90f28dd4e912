/** The error numbers that the driver, sysfs and VFIO answer with (Linux, all architectures that QEMU/KVM runs on). */
export const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  EIO: 5,
  ENXIO: 6,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  ENODEV: 19,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENOSPC: 28,
  EROFS: 30,
  ENOSYS: 38,
  ETIMEDOUT: 110,
} as const;

export type Errno = keyof typeof ERRNO;

export const isErrno = (text: string): text is Errno => Object.hasOwn(ERRNO, text);

/** What a system call on the simulated hardware fails with. `code` is where Node's own errors carry it. */
export class DriverError extends Error {
  override readonly name = "DriverError";
  constructor(
    readonly code: Errno,
    /** What the driver says in the kernel's log. */
    reason: string,
  ) {
    super(`${code}: ${reason}`);
  }
}
