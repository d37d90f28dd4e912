/** What a host keeps once the product has been there: the program, its store, its units; folders and locks that are empty. */
const KEPT = [
  /^file \/usr\/local\/lib\/vgpu(\/|$)/,
  /^file \/etc\/vgpu(\/|$)/,
  /^file \/var\/lib\/vgpu(\/store\.json|\/instances|\/images(\/incoming)?)?$/,
  /^file \/run\/vgpu(\/(vf|mdev|vm|health|lock|qemu\.json))?$/,
  /^file \/run\/vgpu\/lock\/[^/]+$/,
  /^file \/etc\/systemd\/system\/(.*\/)?vgpu(-reconcile\.(service|timer)|\.slice)$/,
  /^units vgpu(-reconcile\.(service|timer)|\.slice) loaded /,
];

/** An inventory as lines that can be compared. */
function lines(inventory) {
  return Object.entries(inventory).flatMap(([kind, value]) => {
    if (kind === "files") return Object.entries(value).map(([path, what]) => [`file ${path}`, JSON.stringify(what)]);
    if (Array.isArray(value)) return value.map((one) => [`${kind} ${one}`, ""]);
    return Object.entries(value).map(([key, one]) => [`${kind} ${key}`, JSON.stringify(one)]);
  });
}

/** What has come to a host, or gone or changed, between two inventories: what it keeps by intent, and the rest. */
export function differences(before, after) {
  const [old, now] = [new Map(lines(before)), new Map(lines(after))];
  const found = [...new Set([...old.keys(), ...now.keys()])].filter((key) => old.get(key) !== now.get(key));
  const kept = found.filter((key) => !old.has(key) && KEPT.some((pattern) => pattern.test(key)));
  const unexpected = found
    .filter((key) => !kept.includes(key))
    .map((key) => `${key} ${old.get(key) ?? "(new)"} → ${now.get(key) ?? "(gone)"}`);
  return { kept, unexpected };
}
