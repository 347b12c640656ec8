/** What a run of the harness has done, counted, and printed for whoever reads the output. */

export interface Violation {
  readonly invariant: string;
  readonly words: string;
  readonly shape: number;
  readonly pass: number;
}

export interface Tally {
  add(group: string, name: string, count?: number): void;
  merge(other: Readonly<Record<string, Readonly<Record<string, number>>>>): void;
  of(group: string, name: string): number;
  total(group: string): number;
  json(): Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** A line for each group. */
  lines(): readonly string[];
}

export const createTally = (): Tally => {
  const groups = new Map<string, Map<string, number>>();
  const groupOf = (name: string): Map<string, number> => {
    const known = groups.get(name);
    if (known !== undefined) return known;
    const made = new Map<string, number>();
    groups.set(name, made);
    return made;
  };
  const add: Tally["add"] = (group, name, count = 1) => {
    const counts = groupOf(group);
    counts.set(name, (counts.get(name) ?? 0) + count);
  };
  const total = (group: string): number => [...groupOf(group).values()].reduce((sum, count) => sum + count, 0);
  return {
    add,
    merge: (other) => {
      for (const [group, counts] of Object.entries(other))
        for (const [name, count] of Object.entries(counts)) add(group, name, count);
    },
    of: (group, name) => groupOf(group).get(name) ?? 0,
    total,
    json: () => Object.fromEntries([...groups].map(([group, counts]) => [group, Object.fromEntries(counts)])),
    lines: () =>
      [...groups].map(([group, counts]) => {
        const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, count]) => `${name} ${count}`);
        return `${group}: ${total(group)} (${sorted.join(", ")})`;
      }),
  };
};
