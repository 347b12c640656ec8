/** What turns cost at several lengths of the log, as a table, and held to the bounds of a flat cost. */

export type TurnKind = "plain" | "compacting" | "after import";

/** One more turn: medians of several, but for the own time, which is the least, and the heap, which is the largest. */
export interface TurnCost {
  readonly kind: TurnKind;
  /** Length of the log. */
  readonly messages: number;
  /** Rows and bytes of values that PostgreSQL answered with. */
  readonly rows: number;
  readonly bytes: number;
  readonly roundTrips: number;
  readonly cpuMs: number;
  /** Wall time in PostgreSQL and its driver, which is part of the own time. */
  readonly databaseMs: number;
  /** Wall time of the turn without what the provider took. */
  readonly overheadMs: number;
  readonly peakHeapBytes: number;
}

export interface FlatBounds {
  /** Largest value over the smallest, over all lengths of a kind. */
  readonly readRatio: number;
  readonly cpuRatio: number;
  readonly peakHeapBytes: number;
  /** Of a plain turn of this length. */
  readonly absolute: { readonly messages: number; readonly overheadMs: number; readonly cpuMs: number };
}

export const FLAT_BOUNDS: FlatBounds = {
  readRatio: 1.1,
  cpuRatio: 1.3,
  peakHeapBytes: 96 * 1024 * 1024,
  absolute: { messages: 5_000, overheadMs: 30, cpuMs: 20 },
};

const ratio = (values: readonly number[]): number =>
  Math.max(...values) / Math.max(Math.min(...values), Number.MIN_VALUE);

const kindsOf = (costs: readonly TurnCost[]): readonly TurnKind[] => [...new Set(costs.map(({ kind }) => kind))];

interface Ratios {
  readonly rows: number;
  readonly bytes: number;
  readonly cpu: number;
}

const ratiosOf = (costs: readonly TurnCost[], kind: TurnKind): Ratios => {
  const own = costs.filter((cost) => cost.kind === kind);
  return {
    rows: ratio(own.map(({ rows }) => rows)),
    bytes: ratio(own.map(({ bytes }) => bytes)),
    cpu: ratio(own.map(({ cpuMs }) => cpuMs)),
  };
};

const MIB = 1024 * 1024;

/** What breaks a bound, in words. Empty when nothing does. */
export const brokenBounds = (costs: readonly TurnCost[], bounds: FlatBounds = FLAT_BOUNDS): readonly string[] => {
  const over = (what: string, value: number, limit: number): readonly string[] =>
    value <= limit ? [] : [`${what}: ${value.toFixed(2)}, allowed are ${limit}`];
  const { absolute } = bounds;
  return [
    ...kindsOf(costs).flatMap((kind) => {
      const ratios = ratiosOf(costs, kind);
      return [
        ...over(`${kind}, rows, largest over smallest`, ratios.rows, bounds.readRatio),
        ...over(`${kind}, bytes, largest over smallest`, ratios.bytes, bounds.readRatio),
        ...over(`${kind}, CPU, largest over smallest`, ratios.cpu, bounds.cpuRatio),
      ];
    }),
    ...costs.flatMap(({ kind, messages, peakHeapBytes }) =>
      over(`${kind}, ${messages} messages, heap in MiB`, peakHeapBytes / MIB, bounds.peakHeapBytes / MIB),
    ),
    ...costs
      .filter(({ kind, messages }) => kind === "plain" && messages === absolute.messages)
      .flatMap(({ overheadMs, cpuMs }) => [
        ...over(`plain, ${absolute.messages} messages, own time in ms`, overheadMs, absolute.overheadMs),
        ...over(`plain, ${absolute.messages} messages, CPU in ms`, cpuMs, absolute.cpuMs),
      ]),
  ];
};

const HEADINGS = [
  "turn",
  "messages",
  "rows",
  "KiB read",
  "round trips",
  "CPU ms",
  "own ms",
  "in database",
  "heap MiB",
] as const;

/** A line for each cost, and after each kind its ratios. */
export const costTable = (costs: readonly TurnCost[]): string => {
  const rows = kindsOf(costs).flatMap((kind) => {
    const ratios = ratiosOf(costs, kind);
    const times = (value: number): string => `x${value.toFixed(2)}`;
    return [
      ...costs
        .filter((cost) => cost.kind === kind)
        .map((cost) => [
          kind,
          cost.messages.toLocaleString("en"),
          String(cost.rows),
          (cost.bytes / 1024).toFixed(1),
          String(cost.roundTrips),
          cost.cpuMs.toFixed(1),
          cost.overheadMs.toFixed(0),
          cost.databaseMs.toFixed(1),
          (cost.peakHeapBytes / MIB).toFixed(1),
        ]),
      [kind, "ratio", times(ratios.rows), times(ratios.bytes), "", times(ratios.cpu), "", "", ""],
    ];
  });
  const widths = HEADINGS.map((heading, at) => Math.max(heading.length, ...rows.map((row) => row[at]?.length ?? 0)));
  return [[...HEADINGS], ...rows]
    .map((row) =>
      row
        .map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
};
