/** What the driver puts before a profile's name; older ones, with mdev, the second. */
const VENDORS = ["NVIDIA", "GRID"];

/** Whether a catalogue's name is the profile that was asked for, with or without the vendor's name before it. */
export function isProfile(name: string, asked: string): boolean {
  return name === asked || VENDORS.some((vendor) => name === `${vendor} ${asked}`);
}

/** Whether two inputs name the same profile, one of them perhaps in the short form. */
export const isSameProfile = (one: string, other: string) => isProfile(one, other) || isProfile(other, one);

/** The name as people shorten it: without the vendor, in small letters. */
export function plainProfile(name: string): string {
  const words = name.toLowerCase().split(/[\s_]+/);
  return words.filter((word, index) => index > 0 || !VENDORS.some((vendor) => vendor.toLowerCase() === word)).join(" ");
}
