/** The generations of a session for its export: measured first, then read a few at a time. What they hold never changes once committed. */
import { sql } from "drizzle-orm";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Db } from "./db.ts";
import { pageOf } from "./pages.ts";
import { type CompactionRecord, listCompactions } from "./receipts.ts";
import { number, text } from "./rows.ts";

/** Receipts read at once; they hold no content. */
const RECEIPTS_PAGE = 100;
/** Contents read at once: each has at most about 100 KB. */
const CONTENTS_PAGE = 20;

export interface PlannedCompaction {
  /** As it was when the export began: whether it was read or voided is fixed then. */
  readonly record: CompactionRecord;
  /** Size of its content in bytes, as `exportCompactions` gives it. */
  readonly contentBytes: number;
}

/** JSON texts, each on one line. */
export interface CompactionContent {
  readonly generation: number;
  readonly summary: string;
  readonly pinnedText: string;
  readonly sections: string;
}

const SUMMARY = sql`to_json(c.summary)::text`;
const PINNED = sql`coalesce(to_json(c.pinned_text)::text, 'null')`;
const SECTIONS = sql`regexp_replace(c.sections::text, '[\r\n]', ' ', 'g')`;

/**
 * What an export of the session's generations consists of, ascending.
 * @param sessionId a session that was found by its tenant
 * @throws StoreUnavailable
 */
export const planCompactions = async (
  db: Db,
  tenantId: TenantId,
  sessionId: SessionId,
): Promise<readonly PlannedCompaction[]> => {
  const [sizes = []] = await db.batch(
    [
      sql`select c.generation, octet_length(${SUMMARY}) + octet_length(${PINNED}) + octet_length(${SECTIONS}) as bytes
        from compactions c where c.session_id = ${sessionId}`,
    ],
    { name: "measure compactions", repeatable: true },
  );
  const bytesOf = new Map(sizes.map((row) => [number(row, "generation"), number(row, "bytes")]));
  const planned: PlannedCompaction[] = [];
  while (planned.length < bytesOf.size) {
    const page = pageOf({ limit: RECEIPTS_PAGE, order: "asc", cursor: planned.at(-1)?.record.generation ?? null });
    const records = await listCompactions(db, tenantId, { id: sessionId }, page);
    if (records.length === 0) break;
    for (const record of records) {
      const contentBytes = bytesOf.get(record.generation);
      if (contentBytes !== undefined) planned.push({ record, contentBytes });
    }
    // A generation that was committed meanwhile is not in this export.
    if (records.at(-1)?.generation !== planned.at(-1)?.record.generation) break;
  }
  return planned;
};

/** The contents of these generations, in order, read a page at a time. @throws StoreUnavailable */
export async function* exportCompactions(
  db: Db,
  sessionId: SessionId,
  generations: readonly number[],
): AsyncGenerator<CompactionContent> {
  for (let at = 0; at < generations.length; at += CONTENTS_PAGE) {
    const wanted = generations.slice(at, at + CONTENTS_PAGE);
    const [rows = []] = await db.batch(
      [
        sql`select c.generation, ${SUMMARY} as summary, ${PINNED} as pinned_text, ${SECTIONS} as sections from compactions c
          where c.session_id = ${sessionId} and c.generation = any(${sql.param(wanted)}::bigint[]) order by c.generation`,
      ],
      { name: "export compactions", repeatable: true },
    );
    for (const row of rows) {
      yield {
        generation: number(row, "generation"),
        summary: text(row, "summary"),
        pinnedText: text(row, "pinned_text"),
        sections: text(row, "sections"),
      };
    }
  }
}
