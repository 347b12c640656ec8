/** Logs of any length that end alike, made by SQL: copies of a recorded session, and a view over them as compactions leave it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";
import { historyPath, PREFIX_VERSION, renderGeneration } from "../../context/handoff.ts";
import { mergeSections, type Sections, sectionsOf } from "../../context/sections.ts";
import { PROMPT_VERSION } from "../../context/summary-prompt.ts";
import { DEFAULT_CLIP_TOKENS, EMPTY_VIEW, type Generation } from "../../context/view-state.ts";
import { type MessageId, type RunId, seq } from "../../protocol/ids.ts";
import type { LogRow, NewRow } from "../../protocol/messages.ts";
import { newRow } from "../../turns/rows.ts";
import { storedViewOf } from "../../turns/stored-view.ts";
import { readRows } from "./recorded.ts";

const COLLECTION = join(import.meta.dirname, "../../../../shared/data");
const FIXTURES = join(import.meta.dirname, "../../../test/fixtures");

/** Long results of tools, code, and many rounds; where the collection is not there, the small sample. */
const recorded = (): readonly LogRow[] =>
  existsSync(COLLECTION)
    ? readRows(COLLECTION, "cc-log-sample-project-concatenated")
    : readRows(FIXTURES, "tau-airline-t9-r2");

/** Stands for the number of a copy: ids of calls must differ between copies. */
const COPY = "zCOPYz";
const COPY_DIGITS = 4;

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly tool_use_id?: string;
}

const isKept = ({ type }: Block): boolean => ["text", "tool_use", "tool_result"].includes(type);

const copiedBlock = (block: Block, names: Map<string, string>): Block => {
  const name = (id: string): string => {
    const known = names.get(id) ?? `call_${names.size}_${COPY}`;
    names.set(id, known);
    return known;
  };
  return {
    ...block,
    ...(block.id === undefined ? {} : { id: name(block.id) }),
    ...(block.tool_use_id === undefined ? {} : { tool_use_id: name(block.tool_use_id) }),
  };
};

/** The session of which logs are copies. Signed thinking is left out: the simulator knows its own signatures only. */
export const template = (): readonly NewRow[] => {
  const names = new Map<string, string>();
  return recorded().flatMap(({ origin, content }, at) => {
    const blocks = (JSON.parse(content) as readonly Block[]).filter(isKept).map((block) => copiedBlock(block, names));
    if (blocks.length === 0) return [];
    const calls = blocks.flatMap(({ type, id }) => (type === "tool_use" && id !== undefined ? [id] : []));
    return [
      newRow({
        id: `msg_${at}` as MessageId,
        origin,
        content: JSON.stringify(blocks),
        calls,
        runId: "run_before" as RunId,
      }),
    ];
  });
};

/** The last rows of a log of so many messages, as they will be read back. Copies are counted from the end, so that all logs end alike. */
export const tailOf = (rows: readonly NewRow[], messages: number, count: number): readonly LogRow[] =>
  Array.from({ length: Math.min(count, messages) }, (_, index) => {
    const back = Math.min(count, messages) - 1 - index;
    const row = rows[rows.length - 1 - (back % rows.length)];
    if (row === undefined) throw new Error("The recorded session has no messages.");
    const copy = String(Math.floor(back / rows.length)).padStart(COPY_DIGITS, "0");
    const named = (text: string): string => text.replaceAll(COPY, copy);
    return { ...row, content: named(row.content), calls: row.calls.map(named), seq: seq(messages - back) };
  });

/** Fills the table that logs are copied from. */
export const storeTemplate = async (client: pg.Client, rows: readonly NewRow[]): Promise<void> => {
  await client.query(
    "create table bench_rows (back int primary key, role text, origin text, content text, calls text[], tokens int, bytes int)",
  );
  for (const [at, row] of rows.entries()) {
    await client.query("insert into bench_rows values ($1, $2, $3, $4, $5, $6, $7)", [
      rows.length - 1 - at,
      row.role,
      row.origin,
      row.content,
      row.calls,
      row.tokens,
      row.bytes,
    ]);
  }
};

/** Writes a session's log. @param runId null for messages that were imported */
export const storeLog = async (
  client: pg.Client,
  sessionId: string,
  messages: number,
  runId: string | null,
): Promise<void> => {
  await client.query(
    `insert into messages (session_id, seq, id, role, origin, content, calls, tokens, bytes, run_id)
     select $1, at, 'msg_' || $1 || '_' || at, b.role, b.origin, replace(b.content, $4, copy)::json,
       array(select replace(id, $4, copy) from unnest(b.calls) id), b.tokens, b.bytes, $3
     from generate_series(1, $2::int) at
       cross join (select count(*)::int as size from bench_rows) t
       cross join lateral (select lpad((($2::int - at) / t.size)::text, $5::int, '0') as copy) c
       join bench_rows b on b.back = ($2::int - at) % t.size`,
    [sessionId, messages, runId, COPY, COPY_DIGITS],
  );
};

/** What a session begins a turn with. */
export interface StoredState {
  readonly sessionId: string;
  readonly messages: number;
  /** The kept slice and what a generation says of the rest; null for a session whose view was never changed. */
  readonly view: {
    readonly keptFrom: number;
    readonly clippedBefore: number;
    readonly summary: string;
    readonly sections: Sections;
  } | null;
}

/** The generation as a compaction stores it. */
const storedGeneration = (sessionId: string, { keptFrom, summary, sections }: NonNullable<StoredState["view"]>) => {
  const generation: Generation = {
    number: 1,
    base: 0,
    covered: [{ from: seq(1), to: seq(keptFrom - 1) }],
    summary,
    sections,
    pinned: null,
    history: { kind: "file", path: historyPath(sessionId) },
    prefixVersion: PREFIX_VERSION,
  };
  const rendered = renderGeneration(generation, sessionId);
  return storedViewOf({ ...EMPTY_VIEW, generation: { ...generation, rendered } }).generation;
};

/** Puts a session back to where it was before its turns: they add rows, generations and revisions. */
export const restore = async (client: pg.Client, { sessionId, messages, view }: StoredState): Promise<void> => {
  await client.query("begin");
  await client.query("select set_config('hango.erasing', $1, true)", [sessionId]);
  await client.query("delete from messages where session_id = $1 and seq > $2", [sessionId, messages]);
  await client.query("delete from view_revisions where session_id = $1", [sessionId]);
  await client.query("delete from compactions where session_id = $1", [sessionId]);
  await client.query(
    `update session_heads set next_seq = $2::bigint + 1, revision = $3, thinking_floor = 1, calibration = null, cooldown_until = null,
       cooldown_reason = null, strikes = 0, guarded_generation = 0, guarded_reading = null, guarded_hash = null,
       guarded_summary_tokens = null, settled_seq = 0, budget_run_id = null, compaction_pause = null, probation_at = null, force_compaction = null, open_batch_seq = null, lease_holder = null, lease_expires_at = null
     where session_id = $1`,
    [sessionId, messages, view === null ? 0 : 1],
  );
  if (view !== null) {
    await client.query(
      `insert into compactions (session_id, generation, base_generation, attempt_id, covered, covered_hash, reason, summary, sections,
         prompt_version, prefix_version, tokens_before, tokens_after, evicted, history_path)
       values ($1, 1, 0, 'cmp_' || $1, int8multirange(int8range(1, $2::bigint)), '', 'threshold', $3, $4, $5, $6, 170000, 40000, $2::bigint - 1, $7)`,
      [
        sessionId,
        view.keptFrom,
        view.summary,
        storedGeneration(sessionId, view)?.sections,
        PROMPT_VERSION,
        PREFIX_VERSION,
        historyPath(sessionId),
      ],
    );
    await client.query(
      `insert into view_revisions (session_id, revision, attempt_id, generation, clipped_before, clip_tokens, thinking_floor, reason)
       values ($1, 1, 'cmp_' || $1, 1, $2, $3, $4, 'summarise')`,
      [sessionId, view.clippedBefore, DEFAULT_CLIP_TOKENS, view.keptFrom],
    );
  }
  await client.query("commit");
};

/** Rows that a compaction covers, about. */
const COVERED_AT_ONCE = 300;

/** The sections of rows that were covered by one compaction after another. */
export const sectionsOver = (rows: readonly LogRow[], windowTokens: number): Sections => {
  let sections = sectionsOf(rows.slice(0, COVERED_AT_ONCE), windowTokens);
  for (let at = COVERED_AT_ONCE; at < rows.length; at += COVERED_AT_ONCE)
    sections = mergeSections(sections, sectionsOf(rows.slice(at, at + COVERED_AT_ONCE), windowTokens), windowTokens);
  return sections;
};
