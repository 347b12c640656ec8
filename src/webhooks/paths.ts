/** Places in what was received: `payload.issue.number`, `payload.events.0.type`, `headers.x-github-event`. */

/** @returns undefined where there is nothing; only what the value itself holds is found */
export const valueAt = (root: unknown, path: string): unknown =>
  path.split(".").reduce<unknown>((at, name) => {
    if (typeof at !== "object" || at === null) return undefined;
    return Object.hasOwn(at, name) ? Reflect.get(at, name) : undefined;
  }, root);

/** The value as text where it is a text, a number or a flag; undefined else. */
export const scalarAt = (root: unknown, path: string): string | undefined => {
  const value = valueAt(root, path);
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;
};
