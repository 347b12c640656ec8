/** What of a session a turn reads: the current view, and the rows outside of it, as far back as a budget reaches (V7). */
import { type SQL, sql } from "drizzle-orm";
import type { RunId } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import type { Row } from "./db.ts";
import { GUARD_COLUMNS, type StoredGuards, storedGuards } from "./guards.ts";
import { parseRanges, type StoredRange } from "./ranges.ts";
import { flag, LOG_COLUMNS, logRow, number, numberOrNull, text, textOrNull } from "./rows.ts";
import { GENERATION_COLUMNS, REVISION_COLUMNS, type StoredView, storedView } from "./view.ts";

/** How far back rows are read, in windows of the session's model (V7). */
const WINDOWS_LOADED = 1.5;

/** How far back rows are read at most, in bytes as sent (V7). */
export const MAX_LOADED_BYTES = 8 * 1024 * 1024;

/**
 * The windows of models, in tokens, by which a turn decides how far back it reads. Which model the session has is known only to the
 * database, so all go there. In order: the session's override, `configured`, the provider's own word, `builtIn`, `otherwise` (E7).
 */
export interface LoadLimits {
  readonly configured: Readonly<Record<string, number>>;
  /** By name without a date. */
  readonly builtIn: Readonly<Record<string, number>>;
  readonly otherwise: number;
  readonly maxBytes: number;
}

export interface Loaded {
  /** Null while nothing of the view was ever changed. */
  readonly view: StoredView | null;
  /** The view shows a generation that could not be loaded: nothing may be built on what there is. */
  readonly baseMissing: boolean;
  /** The number of the next generation: numbers of voided ones are not used again. */
  readonly nextGeneration: number;
  /** As it was last stored; null before the first reading. */
  readonly calibration: unknown;
  readonly guards: StoredGuards;
  /** A compaction that was asked for: its focus, empty for none; null when there is none (G9). */
  readonly forceCompaction: string | null;
  /** What the provider says of the session's model, as far as it was asked (E7). */
  readonly modelLimits: { readonly maxInputTokens: number; readonly maxOutputTokens: number | null } | null;
  /** Ascending by seq: what is neither covered, rewound nor hidden, and fits. */
  readonly rows: readonly LogRow[];
  /** Seqs of rows that were undone (R3). */
  readonly rewound: readonly StoredRange[];
  /** What would have been read but for the limits: rows older than all of `rows`, to be hidden. */
  readonly unloaded: readonly StoredRange[];
}

const windowTokens = ({ configured, builtIn, otherwise }: LoadLimits): SQL => {
  const named = sql`${JSON.stringify(builtIn)}::jsonb`;
  return sql`coalesce((s.settings->'context'->>'max_input_tokens')::numeric, (${JSON.stringify(configured)}::jsonb->>s.model)::numeric,
    p.max_input_tokens, (${named}->>s.model)::numeric, (${named}->>regexp_replace(s.model, '-(\\d{8}|latest)$', ''))::numeric, ${otherwise}::numeric)`;
};

/** The rows that a turn may read are worked out once and kept for the second statement, in a setting that ends with the transaction. */
const ROWS_TO_LOAD = sql`'hango.rows_to_load'`;

/** Whose view is read: `from` names `session_heads h`, and `newest` is a seq from which on everything is read. */
interface Source {
  readonly from: SQL;
  readonly where: SQL;
  readonly newest: SQL;
}

/**
 * SQL: two statements, of the view and of the rows, both empty unless the run holds its session.
 * @param limits null to load everything
 */
export const loadStatements = (runId: RunId, limits: LoadLimits | null): readonly [SQL, SQL] =>
  statementsFrom(
    {
      from: sql`runs r join session_heads h on h.session_id = r.session_id and h.lease_holder = r.id`,
      where: sql`r.id = ${runId}`,
      newest: sql`r.input_seq`,
    },
    limits,
  );

/**
 * SQL: the same two statements for whoever only looks, whether a run holds the session or not.
 * @param session condition over `sessions s`
 */
export const readStatements = (session: SQL, limits: LoadLimits | null): readonly [SQL, SQL] =>
  statementsFrom(
    {
      from: sql`session_heads h`,
      where: sql`h.session_id = (select s.id from sessions s where ${session})`,
      newest: sql`h.next_seq`,
    },
    limits,
  );

const statementsFrom = ({ from, where, newest }: Source, limits: LoadLimits | null): readonly [SQL, SQL] => {
  const maxTokens =
    limits === null ? sql`null::bigint` : sql`(${sql.raw(String(WINDOWS_LOADED))} * ${windowTokens(limits)})::bigint`;
  return [
    sql`select ${sql.raw(REVISION_COLUMNS)}, ${sql.raw(GENERATION_COLUMNS)}, h.calibration::text as calibration,
        ${GUARD_COLUMNS}, coalesce(v.generation, 0) <> 0 and c.generation is null as base_missing, h.force_compaction, h.rewound::text as rewound, p.max_input_tokens, p.max_output_tokens,
        (select coalesce(max(n.generation), 0) + 1 from compactions n where n.session_id = h.session_id) as next_generation,
        (wanted.seqs - int8multirange(int8range(load.first, null)))::text as unloaded,
        set_config(${ROWS_TO_LOAD}, (wanted.seqs * int8multirange(int8range(load.first, null)))::text, true) as loaded
      from ${from} join sessions s on s.id = h.session_id
        left join model_profiles p on p.model = s.model
        left join view_revisions v on v.session_id = h.session_id and v.revision = h.revision
        left join compactions c on c.session_id = v.session_id and c.generation = v.generation,
        lateral (select int8multirange(int8range(1, h.next_seq)) - h.rewound - coalesce(v.hidden, '{}') - coalesce(c.covered, '{}') as seqs) wanted,
        lateral (select hango_load_from(h.session_id, wanted.seqs, least(h.open_batch_seq, ${newest}, h.next_seq),
          ${maxTokens}, ${limits === null ? null : limits.maxBytes}::bigint) as first) load
      where ${where}`,
    sql`select ${sql.raw(LOG_COLUMNS)} from ${from},
        lateral hango_rows(h.session_id, current_setting(${ROWS_TO_LOAD}, true)::int8multirange) m
      where ${where} order by m.seq`,
  ];
};

/** @param row of the first statement @param log rows of the second */
export const loadedOf = (row: Row, log: readonly Row[]): Loaded => {
  const calibration = textOrNull(row, "calibration");
  const maxInputTokens = numberOrNull(row, "max_input_tokens");
  return {
    view: row.revision == null ? null : storedView(row),
    baseMissing: flag(row, "base_missing"),
    nextGeneration: number(row, "next_generation"),
    calibration: calibration === null ? null : JSON.parse(calibration),
    guards: storedGuards(row),
    forceCompaction: textOrNull(row, "force_compaction"),
    modelLimits:
      maxInputTokens === null ? null : { maxInputTokens, maxOutputTokens: numberOrNull(row, "max_output_tokens") },
    rows: log.map(logRow),
    rewound: parseRanges(text(row, "rewound")),
    unloaded: parseRanges(text(row, "unloaded")),
  };
};
