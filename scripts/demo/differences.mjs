/** What the first contact with a host puts there to stay, as the product's README says. */
const INSTALLED = [
  /^file \/usr\/local\/lib\/vgpu(\/|$)/,
  /^file \/etc\/vgpu(\/|$)/,
  /^file \/var\/lib\/vgpu(\/store\.json|\/instances|\/images)?$/,
  /^file \/run\/vgpu(\/(vf|mdev|vm|health|lock))?$/,
  /^file \/run\/vgpu\/lock\//,
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

/** What differs between two inventories of a host: by the installation, and otherwise. */
export function differences(before, after) {
  const [old, now] = [new Map(lines(before)), new Map(lines(after))];
  const found = [...new Set([...old.keys(), ...now.keys()])].filter((key) => old.get(key) !== now.get(key));
  const installed = found.filter((key) => !old.has(key) && INSTALLED.some((pattern) => pattern.test(key)));
  const unexpected = found
    .filter((key) => !installed.includes(key))
    .map((key) => `${key} ${old.get(key) ?? "(new)"} → ${now.get(key) ?? "(gone)"}`);
  return { installed, unexpected };
}
