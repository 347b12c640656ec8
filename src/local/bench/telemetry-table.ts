/** What telemetry costs a turn, as a table of ratios, and held to its bounds. */

/** What the turns of one kind cost, each figure typical of many. */
export interface Cost {
  /** Wall time of the turn without what the provider took, as the turn itself says. */
  readonly overheadMs: number;
  /** From the request to the last byte of the answer, for the client. */
  readonly latencyMs: number;
  /** CPU time of workerd's main thread until it is quiet again: the export included, but not what gives it up seconds later. */
  readonly cpuMs: number;
}

/** The kinds, by how a Worker is deployed. `unconfigured` is what the others are compared with. */
export const KINDS = [
  "unconfigured",
  "unconfigured, again",
  "without telemetry",
  "healthy collector",
  "collector answers 500",
  "collector never answers",
] as const;
export type Kind = (typeof KINDS)[number];

export type Costs = Readonly<Record<Kind, Cost>>;

/** Largest ratios to `unconfigured`. */
export interface Bounds {
  readonly overhead: number;
  readonly latency: number;
  readonly cpu: number;
}

/** What a caller waits for must not change: the bounds are the noise of a busy machine. The CPU of an export is real, and comes after the answer. */
const CONFIGURED: Bounds = { overhead: 1.3, latency: 1.3, cpu: 1.6 };
/** The same Worker twice; what it may differ by is what can be told apart at all. */
const NOISE: Bounds = { overhead: 1.25, latency: 1.25, cpu: 1.25 };

export const BOUNDS: Readonly<Record<Exclude<Kind, "unconfigured">, Bounds>> = {
  "unconfigured, again": NOISE,
  "without telemetry": NOISE,
  "healthy collector": CONFIGURED,
  "collector answers 500": CONFIGURED,
  "collector never answers": CONFIGURED,
};

const ratiosOf = (cost: Cost, base: Cost): Bounds => ({
  overhead: cost.overheadMs / base.overheadMs,
  latency: cost.latencyMs / base.latencyMs,
  cpu: cost.cpuMs / base.cpuMs,
});

/** Turned round where less is what would be wrong: a build without telemetry must not be faster than one that has it and does not use it. */
const compared = (kind: Kind, costs: Costs): Bounds =>
  kind === "without telemetry" ? ratiosOf(costs.unconfigured, costs[kind]) : ratiosOf(costs[kind], costs.unconfigured);

/** What breaks a bound, in words. Empty when nothing does. */
export const brokenBounds = (costs: Costs, bounds: typeof BOUNDS = BOUNDS): readonly string[] =>
  KINDS.flatMap((kind) => {
    if (kind === "unconfigured") return [];
    const ratios = compared(kind, costs);
    return (["overhead", "latency", "cpu"] as const)
      .filter((what) => !(ratios[what] <= bounds[kind][what]))
      .map((what) => `${kind}, ${what}: ratio ${ratios[what].toFixed(2)}, allowed is ${bounds[kind][what]}`);
  });

const HEADINGS = ["turn", "own ms", "ratio", "client ms", "ratio", "CPU ms", "ratio"];

/** A line for each kind; ratios are to `unconfigured`. */
export const costTable = (costs: Costs): string => {
  const rows = KINDS.map((kind) => {
    const { overheadMs, latencyMs, cpuMs } = costs[kind];
    const ratios = ratiosOf(costs[kind], costs.unconfigured);
    return [
      kind,
      overheadMs.toFixed(1),
      `x${ratios.overhead.toFixed(2)}`,
      latencyMs.toFixed(1),
      `x${ratios.latency.toFixed(2)}`,
      cpuMs.toFixed(1),
      `x${ratios.cpu.toFixed(2)}`,
    ];
  });
  const widths = HEADINGS.map((heading, at) => Math.max(heading.length, ...rows.map((row) => row[at]?.length ?? 0)));
  return [HEADINGS, ...rows]
    .map((row) =>
      row.map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0))).join("  "),
    )
    .join("\n");
};

/** The mean of the middle half: as steady as a median, and finer than the whole milliseconds that some figures come in. */
export const typical = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const quarter = Math.floor(sorted.length / 4);
  const middle = sorted.slice(quarter, sorted.length - quarter);
  return middle.reduce((sum, value) => sum + value, 0) / middle.length;
};
