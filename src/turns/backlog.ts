/**
 * Rows that were too many for a turn to load, mostly after a large import, are hidden from the model and compacted here, in the queue, a
 * piece at a time, oldest first (V7). No model is asked: what is rendered from the rows (S2) and the history file are made; a narrative
 * comes with the session's next own compaction, from what it still shows.
 */
import { UNKNOWN } from "../context/attempt.ts";
import { coveredHash } from "../context/covered-hash.ts";
import { historyPath, PREFIX_VERSION, renderGeneration } from "../context/handoff.ts";
import { floorAfter, shown } from "../context/ladder-input.ts";
import { EMPTY_SECTIONS, mergeSections, type Sections, sectionsOf } from "../context/sections.ts";
import { stillLost } from "../context/skills.ts";
import { difference, type Generation, rangesOf, type SeqRange, union, type ViewState } from "../context/view-state.ts";
import { seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { LeaseLost } from "../store/errors.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import { rowsBetween } from "../store/log-range.ts";
import { finishMaintenance } from "../store/maintenance.ts";
import { takeMaintenanceLease } from "../store/maintenance-lease.ts";
import { metric } from "../telemetry/genai.ts";
import { noopSpan } from "../telemetry/tracer.ts";
import type { Deps } from "./deps.ts";
import { runErrorOf } from "./failure.ts";
import { loadLimits } from "./load-limits.ts";
import { sendForNext } from "./next-run.ts";
import { type PreparedRun, prepareRun } from "./prepare-run.ts";
import type { CompactBacklog } from "./queue.ts";

/** Rows of one piece, in bytes: what a message of the queue does in a few seconds, while a turn is told that the session is busy. */
const PIECE_BYTES = 16 * 1024 * 1024;

/** Rows that are looked at together, in bytes. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** A session is busy: the message is to be delivered again later. */
export class BacklogBusy extends Error {
  override readonly name = "BacklogBusy";
}

interface Piece {
  readonly rows: readonly SeqRange[];
  readonly count: number;
  readonly tokens: number;
  readonly sections: Sections;
}

/** The oldest hidden rows up to a piece's size, never ending between calls and their results; written to the history on the way. */
const takePiece = async (
  deps: Deps,
  prepared: PreparedRun,
  session: LoadedSession,
  hidden: readonly SeqRange[],
): Promise<Piece> => {
  const { history } = prepared.compaction;
  let page: LogRow[] = [];
  let pageBytes = 0;
  let bytes = 0;
  let piece: Piece = { rows: [], count: 0, tokens: 0, sections: EMPTY_SECTIONS };
  const flush = async (): Promise<void> => {
    if (page.length === 0) return;
    await history.append(page);
    piece = {
      rows: union(piece.rows, rangesOf(page.map((row) => row.seq))),
      count: piece.count + page.length,
      tokens: piece.tokens + page.reduce((sum, row) => sum + row.tokens, 0),
      sections: mergeSections(piece.sections, sectionsOf(page)),
    };
    page = [];
    pageBytes = 0;
    prepared.journal.heartbeat();
  };
  for (const range of hidden) {
    for await (const row of rowsBetween(deps.db, session.sessionId, range.from, range.to)) {
      page.push(row);
      pageBytes += row.bytes;
      bytes += row.bytes;
      if (row.calls.length > 0) continue;
      if (pageBytes >= PAGE_BYTES) await flush();
      if (bytes >= PIECE_BYTES) {
        await flush();
        return piece;
      }
    }
    await flush();
  }
  return piece;
};

const commitPiece = async (
  { meter }: Pick<Deps, "meter">,
  prepared: PreparedRun,
  session: LoadedSession,
  piece: Piece,
): Promise<void> => {
  const { live, compaction, turn } = prepared;
  const base = live.view.generation;
  const sections = mergeSections(base?.sections ?? null, piece.sections);
  const made: Generation = {
    number: live.nextGeneration,
    base: base?.number ?? 0,
    covered: union(base?.covered ?? [], piece.rows),
    summary: base?.summary ?? "",
    sections: { ...sections, skills: stillLost(sections.skills, shown(turn.rows, live.view), live.view) },
    pinned: base?.pinned ?? null,
    history: { kind: "file", path: historyPath(session.sessionId) },
    prefixVersion: PREFIX_VERSION,
  };
  const generation: Generation = { ...made, rendered: renderGeneration(made, session.sessionId) };
  const hidden = difference(live.view.hidden, piece.rows);
  const view: ViewState = {
    ...live.view,
    revision: live.stored.revision + 1,
    generation,
    hidden,
    thinkingFloor: floorAfter({ rows: turn.rows, view: live.view, thinkingBound: compaction.thinkingBound }),
  };
  const receipt = {
    attemptId: compaction.newAttemptId(),
    reason: "maintenance" as const,
    tokensBefore: piece.tokens,
    tokensAfter: 0,
    evicted: piece.count,
    model: null,
    usage: null,
    promptVersion: 0,
    coveredHash: await coveredHash(generation.covered),
    historySizeBytes: null,
    historySha256: null,
  };
  const sizes = { before: piece.tokens, after: 0 };
  const stored = await compaction.commit.commit({
    view,
    reason: "backlog",
    trigger: "maintenance",
    compaction: { generation, receipt },
    guards: live.guards,
    sizes,
  });
  compaction.events.attempted({
    ...UNKNOWN,
    attemptId: receipt.attemptId,
    reason: "maintenance",
    status: stored ? "committed" : "discarded_late",
    estimateTokens: null,
    coveredTokens: piece.tokens,
    coveredMessages: piece.count,
    generation: generation.number,
  });
  if (!stored) throw new LeaseLost();
  meter.record(metric.contextEvictedMessages, piece.count);
  live.view = view;
  live.compactions++;
};

/**
 * Compacts one piece of a session's backlog, and sends for the next one.
 * @throws BacklogBusy while a run holds the session; LeaseLost, StoreUnavailable or what the bucket fails with: the message is then to be
 * delivered again
 */
export const compactBacklog = async (deps: Deps, message: CompactBacklog): Promise<void> => {
  const startedMs = deps.now();
  const outcome = await takeMaintenanceLease(deps.db, {
    tenantId: message.tenantId,
    keyId: null,
    session: { id: message.sessionId },
    runId: deps.newId("run"),
    startedAt: new Date(startedMs).toISOString(),
    limits: loadLimits(deps.config),
  });
  if (outcome.kind === "session_not_found") return;
  if (outcome.kind === "busy") throw new BacklogBusy();
  const { session } = outcome;
  const prepared = prepareRun(deps, { session, startedMs, sink: () => undefined }, noopSpan);
  prepared.turn.rows.push(...session.rows);
  let failure: unknown;
  try {
    const hidden = prepared.live.view.hidden;
    const piece = hidden.length === 0 ? null : await takePiece(deps, prepared, session, hidden);
    if (piece !== null && piece.count > 0) await commitPiece(deps, prepared, session, piece);
  } catch (error) {
    failure = error;
  }
  const taken = prepared.journal.take();
  const { next } = await finishMaintenance(deps.db, session, {
    error: failure === undefined ? null : runErrorOf(failure),
    isCancelled: false,
    base: seq(session.nextSeq),
    totals: prepared.journal.totals(),
    compactions: prepared.live.compactions,
    dbRoundTrips: deps.db.roundTrips.counted + 1,
    overheadMs: Math.round(prepared.overheadMs()),
    record: taken.record,
  });
  await sendForNext(deps, session, next).catch(() => undefined);
  if (failure !== undefined) throw failure;
  if (prepared.live.compactions > 0 && prepared.live.view.hidden.length > 0) await deps.queue.send(message);
};
