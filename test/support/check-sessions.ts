/** Runs random sessions against properties, and says how to see a failing one again. */
import fc from "fast-check";
import type { MicroSettings } from "../../src/context/micro-state.ts";
import type { SessionPlan } from "./session-plan.ts";
import { sessionPlan } from "./session-plan.ts";
import type { EndedPass, Sabotage, Sent, SessionProperty, SessionRecord, TurnOutcome } from "./session-record.ts";
import { simulate } from "./simulate.ts";

export interface Broken {
  readonly property: string;
  readonly words: string;
  /** Gives the same session again, together with the seed. */
  readonly path: string;
}

export interface Tally {
  sessions: number;
  rows: number;
  requests: number;
  revisions: number;
  readonly turns: Map<TurnOutcome, number>;
  /** Requests by what the provider did. */
  readonly outcomes: Map<Sent["outcome"], number>;
  /** Sessions by their number of generations. */
  readonly generations: Map<number, number>;
  /** Revisions by reason. */
  readonly reasons: Map<string, number>;
  /** Passes of micro-compaction by what became of them. */
  readonly passes: Map<string, number>;
}

export interface Checked {
  readonly seed: number;
  readonly maxTurns: number;
  readonly tally: Tally;
  readonly broken: readonly Broken[];
}

const add = <K>(counts: Map<K, number>, key: K): void => {
  counts.set(key, (counts.get(key) ?? 0) + 1);
};

const passName = (outcome: EndedPass["outcome"], isLate: boolean): string => {
  if (isLate) return "late";
  if (outcome.kind === "made") return outcome.sizes.pass ?? "made";
  return outcome.kind === "nothing" ? outcome.why : outcome.kind;
};

const count = (tally: Tally, { log, sent, commits, turns, passes }: SessionRecord): void => {
  tally.sessions++;
  tally.rows += log.length;
  tally.requests += sent.length;
  tally.revisions += commits.length;
  for (const { outcome } of turns) add(tally.turns, outcome);
  for (const { outcome } of sent) add(tally.outcomes, outcome);
  add(tally.generations, commits.filter(({ change }) => change.compaction !== null).length);
  for (const { change } of commits) add(tally.reasons, change.reason);
  for (const { outcome, isLate } of passes) add(tally.passes, passName(outcome, isLate));
};

export interface RunOptions {
  readonly seed: number;
  /** How many sessions. */
  readonly runs: number;
  /** Most turns of a session. */
  readonly maxTurns: number;
  /** Of a failing session, to run that one alone. */
  readonly path?: string | undefined;
  readonly sabotage?: Sabotage;
  /** Compacts between turns as well (section 11). */
  readonly micro?: MicroSettings | null;
}

/** Simulates sessions, and holds each of them against the properties. */
export const checkSessions = async (properties: readonly SessionProperty[], options: RunOptions): Promise<Checked> => {
  const { seed, runs, maxTurns, path, sabotage, micro = null } = options;
  const tally: Tally = {
    sessions: 0,
    rows: 0,
    requests: 0,
    revisions: 0,
    turns: new Map(),
    outcomes: new Map(),
    generations: new Map(),
    reasons: new Map(),
    passes: new Map(),
  };
  const broken: Broken[] = [];
  const property = fc.asyncProperty(sessionPlan(maxTurns), async (plan) => {
    const at = path ?? `${tally.sessions}`;
    const record = await simulate(plan, sabotage, micro);
    count(tally, record);
    for (const { name, check } of properties) {
      const [words] = check(record);
      if (words !== undefined) broken.push({ property: name, words, path: at });
    }
  });
  const result = await fc.check(property, {
    seed,
    numRuns: path === undefined ? runs : 1,
    ...(path === undefined ? {} : { path }),
    endOnFailure: true,
  });
  if (result.failed) {
    const error = result.errorInstance;
    const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
    broken.push({ property: "no failure without a type", words, path: result.counterexamplePath ?? "" });
  }
  return { seed, maxTurns, tally, broken };
};

/** The smallest session found that breaks a property, from one that does. */
export const shrunk = async (
  property: SessionProperty,
  {
    seed,
    maxTurns,
    path,
    limitMs,
    sabotage,
    micro = null,
  }: Omit<RunOptions, "runs" | "path"> & { readonly path: string; readonly limitMs: number },
): Promise<{ readonly plan: SessionPlan; readonly words: string } | undefined> => {
  let smallest: { readonly plan: SessionPlan; readonly words: string } | undefined;
  await fc.check(
    fc.asyncProperty(sessionPlan(maxTurns), async (plan) => {
      const [words] = property.check(await simulate(plan, sabotage, micro));
      if (words === undefined) return true;
      smallest = { plan, words };
      return false;
    }),
    { seed, path, numRuns: 1, interruptAfterTimeLimit: limitMs },
  );
  return smallest;
};

const counts = <K>(map: ReadonlyMap<K, number>, sort: (a: K, b: K) => number): string =>
  [...map]
    .sort(([a], [b]) => sort(a, b))
    .map(([key, value]) => `${key}: ${value}`)
    .join(", ");

const byName = (a: string, b: string): number => (a < b ? -1 : 1);

/** What was run, for whoever reads the output. */
export const summary = ({ seed, tally }: Checked): string =>
  [
    `seed ${seed}: ${tally.sessions} sessions, ${tally.rows} rows, ${tally.requests} requests (${counts(tally.outcomes, byName)})`,
    `turns: ${counts(tally.turns, byName)}`,
    `revisions: ${tally.revisions}, ${(tally.revisions / tally.sessions).toFixed(2)} a session (${counts(tally.reasons, byName)})`,
    `generations of a session: ${counts(tally.generations, (a, b) => a - b)}`,
    ...(tally.passes.size === 0 ? [] : [`passes: ${counts(tally.passes, byName)}`]),
  ].join("\n");
