/** A CPU profile of V8 as lines for a person. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly lineNumber: number; readonly columnNumber: number };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
}

const LINES = 25;
const NOT_WORK: ReadonlySet<string> = new Set(["(idle)", "(root)"]);

/**
 * Functions by the CPU time in themselves, then by the time in all that they called. Samples are counted, not the time between them:
 * that holds waiting too.
 * @param profile as the inspector gives it
 */
export const profileRows = (profile: unknown, intervalUs: number): readonly string[] => {
  const { nodes, samples } = profile as CpuProfile;
  const nodeOf = new Map(nodes.map((node) => [node.id, node]));
  const parentOf = new Map(nodes.flatMap(({ id, children }) => (children ?? []).map((child) => [child, id] as const)));
  const name = (id: number): string => {
    const frame = nodeOf.get(id)?.callFrame;
    if (frame === undefined) return "?";
    return frame.lineNumber < 0
      ? frame.functionName
      : `${frame.functionName || "(anonymous)"}:${frame.lineNumber}:${frame.columnNumber}`;
  };
  const own = new Map<string, number>();
  const all = new Map<string, number>();
  const ms = intervalUs / 1000;
  for (const sample of samples) {
    if (NOT_WORK.has(nodeOf.get(sample)?.callFrame.functionName ?? "")) continue;
    own.set(name(sample), (own.get(name(sample)) ?? 0) + ms);
    const seen = new Set<string>();
    for (let at: number | undefined = sample; at !== undefined; at = parentOf.get(at)) seen.add(name(at));
    for (const each of seen) all.set(each, (all.get(each) ?? 0) + ms);
  }
  const lines = (heading: string, times: ReadonlyMap<string, number>): readonly string[] => [
    heading,
    ...[...times]
      .sort(([, a], [, b]) => b - a)
      .slice(0, LINES)
      .map(([what, timeMs]) => `${timeMs.toFixed(1).padStart(8)} ms  ${what}`),
  ];
  return [...lines("in itself", own), ...lines("with what it called", all)];
};
