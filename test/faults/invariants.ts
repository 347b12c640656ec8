/** What must hold of a session whatever went wrong in it. */
import { expect } from "vitest";
import { textOf } from "../support/compaction.ts";
import type { Lane } from "./lane.ts";
import { BEFORE, markOf, type Scenario } from "./scenario.ts";

export interface RunRow {
  readonly id: string;
  readonly status: string;
  readonly code: string | null;
  readonly attempts: number;
}

export const runsOf = async (lane: Lane, { id }: Scenario): Promise<readonly RunRow[]> =>
  (await lane.database.sql(
    "select id, status, error->>'code' as code, attempts from runs where session_id = $1 order by created_at, id",
    [id],
  )) as unknown as readonly RunRow[];

/** Whether a run holds the session, by whatever clock. */
export const isHeld = async (lane: Lane, { id }: Scenario): Promise<boolean> => {
  const [head] = await lane.database.sql("select lease_holder from session_heads where session_id = $1", [id]);
  return head?.lease_holder !== null;
};

/** The log after what was there before the turn. */
const logOf = async (lane: Lane, { id }: Scenario): Promise<readonly string[]> => {
  const rows = await lane.database.sql(
    "select seq::int, origin, content::text from messages where session_id = $1 order by seq",
    [id],
  );
  // Every number is taken, each once: nothing was lost between two rows.
  expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, at) => at + 1));
  expect(rows.slice(0, BEFORE.length).map(({ content }) => textOf(JSON.parse(String(content))))).toEqual(
    BEFORE.map(({ content }) => content),
  );
  return rows.slice(BEFORE.length).map(({ origin, content }) => markOf(String(origin), String(content)));
};

/**
 * The log has every message of the turn once and in order: all of them where the run was completed; where it was not, all up to a place, an
 * open batch closed. The turn after it is whole.
 */
const expectLog = async (lane: Lane, scenario: Scenario, first: RunRow | undefined): Promise<void> => {
  const log = await logOf(lane, scenario);
  const own = log.slice(0, -scenario.afterRows.length);
  expect(log.slice(own.length)).toEqual(scenario.afterRows);
  if (first === undefined) expect(own).toEqual([]);
  else if (first.status === "completed") expect(own).toEqual(scenario.turnRows);
  else {
    expect(own).toEqual(scenario.turnRows.slice(0, own.length));
    expect(own.length).toBeGreaterThanOrEqual(1);
    const last = own.at(-1) ?? "";
    expect(last.startsWith("assistant toolu_"), "a batch is left open").toBe(false);
  }
};

/** What a tool did is done once where it may not be repeated. Where it may be, it is done, unless the log says that it failed. */
const expectSideEffects = async (
  lane: Lane,
  { id, once, repeatable }: Scenario,
  first: RunRow | undefined,
): Promise<void> => {
  for (const call of once) expect(lane.tools.done(call), "a call that may not be repeated").toBeLessThanOrEqual(1);
  if (first?.status !== "completed") return;
  for (const call of repeatable) {
    const [row] = await lane.database.sql(
      "select content::text from messages where session_id = $1 and origin = 'tool' and content::text like $2",
      [id, `%${call}%`],
    );
    const result = JSON.parse(String(row?.content)).find(
      (block: { tool_use_id: string }) => block.tool_use_id === call,
    );
    if (result.is_error !== true) expect(lane.tools.done(call), "a call that was answered").toBeGreaterThanOrEqual(1);
    // Its outcome is never unknown: it was run again.
    expect(JSON.stringify(result)).not.toContain("interrupted");
  }
};

const expectHistory = async (lane: Lane, scenario: Scenario): Promise<void> => {
  const { id } = scenario;
  const generations = await lane.database.sql(
    "select generation::int, evicted, history_path from compactions where session_id = $1 order by generation",
    [id],
  );
  expect(generations.map(({ generation }) => generation)).toEqual(generations.map((_, at) => at + 1));
  const [kept] = generations.filter(({ history_path }) => history_path !== null);
  if (kept !== undefined) {
    const { status, body } = await scenario.get("b", `/files${kept.history_path}`);
    expect(status).toBe(200);
    const evicted = Math.min(Number(generations.at(-1)?.evicted), BEFORE.length);
    for (const message of BEFORE.slice(0, evicted))
      expect(String(body).split(String(message.content)), "a message stands once in the history").toHaveLength(2);
  }
  const [counts] = await lane.database.sql("select compactions from sessions where id = $1", [id]);
  expect(counts?.compactions, "compactions of the session").toBe(generations.length);
};

const USAGE = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"];

/** Every call that was paid for is counted once: in the run, and in the session. */
const expectUsage = async (lane: Lane, { id }: Scenario): Promise<void> => {
  const sums = USAGE.map((name) => `coalesce(sum(${name}), 0)::int as ${name}`).join(", ");
  const plain = USAGE.map((name) => `${name}::int`).join(", ");
  const [records] = await lane.database.sql(`select ${sums} from usage_records where session_id = $1`, [id]);
  const [runs] = await lane.database.sql(`select ${sums} from runs where session_id = $1`, [id]);
  const [session] = await lane.database.sql(`select ${plain} from sessions where id = $1`, [id]);
  expect(runs, "usage of the runs").toEqual(records);
  expect(session, "usage of the session").toEqual(records);
};

/** Each run has one beginning and one end in its events, and the end is last. */
const expectEvents = async (lane: Lane, { id }: Scenario, runs: readonly RunRow[]): Promise<void> => {
  for (const run of runs) {
    const events = (
      await lane.database.sql("select type from run_events where session_id = $1 and run_id = $2 order by n", [
        id,
        run.id,
      ])
    ).map(({ type }) => String(type));
    const ends = events.filter((type) => ["run.completed", "run.failed", "run.cancelled"].includes(type));
    expect(ends, "ends of a run").toEqual([`run.${run.status}`]);
    expect(events.filter((type) => type === "run.started")).toHaveLength(1);
  }
};

/**
 * All of it, after the turn that came after the fault was answered.
 * @returns the run of the turn; undefined where it never began
 */
export const expectSound = async (lane: Lane, scenario: Scenario): Promise<RunRow | undefined> => {
  const runs = await runsOf(lane, scenario);
  expect(await isHeld(lane, scenario), "the lease is free").toBe(false);
  for (const { status } of runs) expect(["completed", "failed", "cancelled"]).toContain(status);
  expect(runs.at(-1)?.status).toBe("completed");
  expect(runs.length).toBeLessThanOrEqual(2);
  const first = runs.length === 2 ? runs[0] : undefined;
  await expectLog(lane, scenario, first);
  await expectSideEffects(lane, scenario, first);
  await expectHistory(lane, scenario);
  await expectUsage(lane, scenario);
  await expectEvents(lane, scenario, runs);
  // What the provider refuses as no valid request has no purpose.
  const refused = lane.simulator.requests.filter(({ purpose, status }) => purpose === undefined && status >= 400);
  expect(refused.map(({ error }) => error)).toEqual([]);
  return first;
};

const TABLES = [
  "messages",
  "compactions",
  "view_revisions",
  "session_heads",
  "runs",
  "run_events",
  "usage_records",
  "inputs",
];

/** Everything that the database holds of a session, to be compared as a whole. */
export const snapshot = async (lane: Lane, { id }: Scenario): Promise<Readonly<Record<string, unknown>>> => {
  const all: Record<string, unknown> = {};
  for (const table of TABLES)
    all[table] = await lane.database.sql(
      `select t::text as row from ${table} t where session_id = $1 order by t::text`,
      [id],
    );
  all.sessions = await lane.database.sql("select t::text as row from sessions t where id = $1", [id]);
  return all;
};
