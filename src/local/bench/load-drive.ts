/** Many sessions at once against a running platform, each turn after turn; afterwards each log is compared with what was said. */
import type { ReceivedRequest } from "../simulator/record.ts";
import type { TurnTimes } from "./load-figures.ts";
import { faultsOf, inputOf, type LoggedMessage, markerOf } from "./load-plan.ts";

export interface LoadSize {
  readonly sessions: number;
  /** Of each session. */
  readonly turns: number;
  /** Sessions that have a turn on at the same time. */
  readonly atOnce: number;
}

export interface LoadTarget {
  readonly url: string;
  /** A key for each session: the rate limit is by key, and no client of one session would meet it. */
  readonly keyOf: (session: number) => Promise<string>;
  readonly requests: readonly ReceivedRequest[];
}

export interface LoadResult {
  readonly turns: readonly TurnTimes[];
  readonly tookMs: number;
  /** A line for each error, and each message that is lost, doubled or out of order. */
  readonly faults: readonly string[];
}

type Caller = (
  method: string,
  path: string,
  body?: object,
) => Promise<{ readonly status: number; readonly text: string }>;

const callerOf =
  (url: string, key: string): Caller =>
  async (method, path, body) => {
    const response = await fetch(url + path, {
      method,
      // A connection of its own for each request: a kept one may be closed by the other side just when the next request is sent on it.
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Connection: "close" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };

interface Turn {
  readonly runId: string;
  readonly overheadMs: number;
  readonly waitedMs: number;
}

interface Session {
  readonly id: string;
  readonly call: Caller;
  readonly turns: Turn[];
  readonly faults: string[];
}

const runTurn = async (session: Session, index: number, turn: number): Promise<void> => {
  const startedMs = performance.now();
  const { status, text } = await session.call("POST", `/v1/sessions/${session.id}/turns`, {
    input: inputOf(index, turn),
  });
  const waitedMs = performance.now() - startedMs;
  const run = status === 200 ? JSON.parse(text) : undefined;
  if (run?.status === "completed") session.turns.push({ runId: run.id, overheadMs: run.overhead_ms, waitedMs });
  else session.faults.push(`session ${index}: turn ${turn} answered ${status}: ${text.slice(0, 300)}`);
};

const readLog = async ({ id, call }: Session): Promise<readonly LoggedMessage[]> => {
  const log: LoggedMessage[] = [];
  for (let page: string | null = ""; page !== null; ) {
    const after: string = page === "" ? "" : `&page=${encodeURIComponent(page)}`;
    const { status, text } = await call("GET", `/v1/sessions/${id}/messages?limit=100&order=asc${after}`);
    if (status !== 200) throw new Error(`the log of ${id} answered ${status}: ${text}`);
    const { data, next_page } = JSON.parse(text);
    log.push(...data);
    page = next_page;
  }
  return log;
};

/** Takes the next piece of work as soon as one is done, so many at once. */
const inParallel = async (atOnce: number, count: number, work: (index: number) => Promise<void>): Promise<void> => {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
};

/** What the model took of each turn of a session, in order: the turn's input stands in the request, and in no earlier turn's. */
const modelMs = (requests: readonly ReceivedRequest[], index: number, turns: number): readonly number[] => {
  const own = requests.filter(({ bodyText }) => bodyText.includes(markerOf(index)));
  const inputs = Array.from({ length: turns }, (_, turn) => JSON.stringify(inputOf(index, turn)).slice(1, -1));
  const took = inputs.map(() => 0);
  for (const { bodyText, timeMs, endedMs } of own) {
    const turn = inputs.findLastIndex((input) => bodyText.includes(input));
    took[turn] = (took[turn] ?? 0) + (endedMs ?? timeMs) - timeMs;
  }
  return took;
};

/** Makes the sessions, then runs their turns: each session's one after the other, so many sessions at once. */
export const driveLoad = async (target: LoadTarget, size: LoadSize): Promise<LoadResult> => {
  const sessions: Session[] = [];
  for (let index = 0; index < size.sessions; index++) {
    const call = callerOf(target.url, await target.keyOf(index));
    const { status, text } = await call("POST", "/v1/sessions", {});
    if (status !== 201) throw new Error(`a session answered ${status}: ${text}`);
    sessions.push({ id: JSON.parse(text).id, call, turns: [], faults: [] });
  }
  const startedMs = performance.now();
  await inParallel(size.atOnce, sessions.length, async (index) => {
    const session = sessions[index];
    for (let turn = 0; session !== undefined && turn < size.turns; turn++) await runTurn(session, index, turn);
  });
  const tookMs = performance.now() - startedMs;
  const turns: TurnTimes[] = [];
  const faults: string[] = [];
  for (const [index, session] of sessions.entries()) {
    const runs = session.turns.map(({ runId }) => runId);
    faults.push(...session.faults, ...faultsOf(index, runs, await readLog(session)));
    const took = modelMs(target.requests, index, size.turns);
    turns.push(
      ...session.turns.map(({ overheadMs, waitedMs }, turn) => ({
        overheadMs,
        clientMs: waitedMs - (took[turn] ?? 0),
      })),
    );
  }
  return { turns, tookMs, faults };
};
