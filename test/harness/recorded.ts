/**
 * A recorded session, replayed with a summariser that fails in every way, and then is good again: whether it is wedged. The model says what was recorded,
 * the tools answer what they answered, in a window that the recording outgrows several times.
 */
import type { PlannedSession } from "../../src/local/replay/session.ts";
import type { ScriptReply } from "../../src/local/simulator/script.ts";
import { turnInput } from "../../src/turns/input.ts";
import { type Lane, MODEL_URL, TOOLS_URL } from "./lane.ts";
import { createProvider, type SummariserKind } from "./provider.ts";
import { prose, randomOf } from "./random.ts";
import { type Answered, askFor, makeSession } from "./session.ts";
import type { Worker } from "./worker.ts";

/** G1's longest cooldown and G4's probation, in s: after both, what held a session back is over. */
export const LONGEST_WAIT_SECONDS = 900 + 300;

/** Every way in which it fails, a turn each, with the time that passes after it, in s: from less than any cooldown to more than all. */
const FAILURES: readonly (readonly [SummariserKind, number])[] = [
  ["silent", 20],
  ["empty", 70],
  ["truncated", 400],
  ["refusing", 40],
  ["growing", 70],
  ["server_error", 10],
  ["network", 50],
  ["cut", 20],
  ["malformed", 40],
  ["overloaded", 70],
  ["rate_limited", 70],
  ["unauthorised", 620],
  ["no_credit", 620],
  ["echo", 70],
  ["too_long", 70],
  ["regret", 1_000],
];

/** How the failing ends, one for each third of the sessions: in the longest cooldown, of either ladder; with a key that is refused. */
const ENDINGS: readonly (readonly (readonly [SummariserKind, number])[])[] = [
  [
    ["silent", 61],
    ["silent", 301],
    ["silent", 0],
  ],
  [
    ["truncated", 61],
    ["truncated", 301],
    ["truncated", 0],
  ],
  [["unauthorised", 0]],
];

/** Turns with a summariser that fails once it is needed: every way once. */
const FAILING_TURNS = FAILURES.length;
/** Turns until a session needs a summary, at the most. */
const MOST_TURNS = 100;
/** Turns to bring a session over its trigger again. */
const FILLERS = 40;
/** Time between two turns of a session that waits, in s. */
const STEP_SECONDS = 60;

export interface RecordedResult {
  readonly name: string;
  readonly windowTokens: number;
  readonly turns: number;
  /** Summaries that failed, by class. */
  readonly failed: ReadonlyMap<string, number>;
  /** Evaluations that a guard blocked. */
  readonly blocked: ReadonlyMap<string, number>;
  /** Turns that ended with an error, by code. */
  readonly errors: ReadonlyMap<string, number>;
  /** What held it back when the summariser was good again. */
  readonly heldBy: string;
  /** From then, with the session over its trigger, to its compaction, in s; null when it is wedged. */
  readonly seconds: number | null;
  /** Whether the log is as it was, row by row. */
  readonly logKept: boolean;
}

const count = (counts: Map<string, number>, name: string): void => {
  counts.set(name, (counts.get(name) ?? 0) + 1);
};

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : JSON.stringify(
        Array.isArray(content) && content.every((one) => typeof one.text === "string")
          ? content.map((one) => one.text).join("\n")
          : content,
      );

/** Replays one session on a lane. */
export const replayFailing = async (planned: PlannedSession, lane: Lane, index: number): Promise<RecordedResult> => {
  lane.beginShape(index);
  const { plan, windowTokens, name } = planned;
  const given = plan.session(TOOLS_URL);
  const model = planned.family;
  const random = randomOf(index);
  const session = await makeSession(
    lane,
    model,
    {
      max_tokens: 4_000,
      ...(given.thinking === undefined ? {} : { thinking: given.thinking }),
      context: { max_input_tokens: windowTokens },
    },
    { system: typeof given.system === "string" ? given.system : null, tools: given.tools },
  );
  const results = new Map(
    plan.turns.flatMap((turn) => turn.results.map((result) => [result.toolUseId, textOf(result.content)] as const)),
  );
  let kind: SummariserKind = "good";
  let script: ScriptReply[] = [];
  const provider = createProvider(
    {
      model: () => "answers",
      summariser: () => kind,
      reply: () => script.shift() ?? { content: "That is done." },
      sees: async () => undefined,
    },
    random,
    lane.nowMs,
    windowTokens,
    [model],
    lane.order,
  );
  const answer = async (worker: Worker, url: string, init: RequestInit | undefined): Promise<Response> => {
    if (url.startsWith(MODEL_URL)) {
      const advance = async (ms: number): Promise<void> => {
        await lane.advance(ms / 1000);
        await new Promise((resolve) => setImmediate(resolve));
      };
      return provider.fetch({ worker: worker.name, advance }, url, init);
    }
    const { tool_use_id }: { tool_use_id?: string } = JSON.parse(String(init?.body));
    return new Response(results.get(String(tool_use_id)) ?? "(not recorded)");
  };
  lane.answers = answer;
  const failed = new Map<string, number>();
  const blocked = new Map<string, number>();
  const errors = new Map<string, number>();
  let turns = 0;
  let keys = 0;

  /** One turn. */
  const turn = async (
    input: readonly object[] | string,
  ): Promise<{
    readonly made: boolean;
    /** A summary was tried, and failed. */
    readonly fails: boolean;
    /** What kept the session from the compaction that it needed. */
    readonly held: string | null;
  }> => {
    turns += 1;
    const worker = lane.worker();
    const parsed = turnInput.parse(input);
    const done = await worker.run<Answered>((deps) =>
      askFor(deps, session, { input: parsed, key: `${session.id} ${++keys}`, onBusy: "reject" }),
    );
    lane.forget(worker);
    let made = false;
    let fails = false;
    let held: string | null = null;
    const error =
      done.kind === "failed"
        ? String(done.error)
        : done.kind === "done" && done.value.kind === "ran"
          ? done.value.run.error?.code
          : null;
    if (error != null) {
      count(errors, error);
      held = error;
    }
    for (const fact of worker.facts) {
      if (fact.msg === "the context was compacted") {
        if (fact.generation !== null) made = true;
        else if (String(fact.steps).includes("truncate")) held ??= "truncated";
      }
      if (fact.msg !== "the context was not compacted") continue;
      if (fact.why === "guard") {
        held = String(fact.guard);
        count(blocked, held);
      }
      if (fact.why === "failed") {
        fails = true;
        count(failed, String(fact.failure));
      }
    }
    return { made, fails, held };
  };
  const filler = (): string => prose(random, Math.floor(windowTokens * 0.4));
  const rows = async (): Promise<readonly string[]> =>
    (
      await lane.sql("select md5(m::text) as hash from messages m where session_id = $1 order by seq", [session.id])
    ).map(({ hash }) => String(hash));

  const recorded = [...plan.turns];
  for (let needing = 0; needing < FAILING_TURNS && turns < MOST_TURNS; ) {
    // The ways in which it fails begin to count once the session needs a summary.
    if (failed.size > 0 || blocked.size > 0) needing += 1;
    const [next, seconds] = FAILURES[(needing + 5 * index) % FAILURES.length] ?? ["silent", 20];
    kind = next;
    const planned = recorded.shift();
    script = (planned?.script ?? []).map(({ reply }) => reply).filter((reply) => reply !== undefined);
    await turn(planned?.input ?? filler());
    await lane.advance(seconds);
  }
  await lane.advance(LONGEST_WAIT_SECONDS);
  for (const [next, seconds] of ENDINGS[index % ENDINGS.length] ?? []) {
    kind = next;
    script = [];
    // Until it needs a summary.
    for (let tries = 0; tries < FILLERS; tries++) {
      const { fails, held } = await turn(filler());
      if (fails || held !== null) break;
    }
    await lane.advance(seconds);
  }
  const before = await rows();
  kind = "good";
  let heldBy = "nothing";
  let needs: number | null = null;
  let seconds: number | null = null;
  for (let more = 0; more < FILLERS + LONGEST_WAIT_SECONDS / STEP_SECONDS; more++) {
    script = [];
    const { made, held } = await turn(filler());
    if (made) {
      seconds = needs === null ? 0 : Math.round((lane.nowMs() - needs) / 1000);
      break;
    }
    if (held !== null && needs === null) {
      needs = lane.nowMs();
      heldBy = held;
    }
    await lane.advance(STEP_SECONDS);
    if (needs !== null && lane.nowMs() - needs > (LONGEST_WAIT_SECONDS + STEP_SECONDS) * 1000) break;
  }
  const after = await rows();
  return {
    name,
    windowTokens,
    turns,
    failed,
    blocked,
    errors,
    heldBy,
    seconds,
    logKept: before.every((hash, at) => after[at] === hash),
  };
};

const words = (counts: ReadonlyMap<string, number>): string =>
  counts.size === 0 ? "-" : [...counts].map(([name, times]) => `${name} ${times}`).join(", ");

/** A line for each session, and one that sums up. */
export const tableOf = (results: readonly RecordedResult[]): string => {
  const wedged = results.filter(({ seconds }) => seconds === null).length;
  const longest = Math.max(0, ...results.map(({ seconds }) => seconds ?? 0));
  return [
    "| session | window | turns | summaries that failed | blocked by | turns that failed | held when good again by | compacted after |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ...results.map(
      (one) =>
        `| ${one.name} | ${one.windowTokens} | ${one.turns} | ${words(one.failed)} | ${words(one.blocked)} | ${words(one.errors)} | ${one.heldBy} | ${one.seconds === null ? "never" : `${one.seconds} s`} |`,
    ),
    `${results.length} sessions, ${wedged} wedged, the longest wait ${longest} s of at most ${LONGEST_WAIT_SECONDS}`,
  ].join("\n");
};
