/** Which requests a view still shows although their answers are behind its summary (section 11, C4). */
import type { LogRow } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import { askText, isUserOriginated, openAsk } from "./ask.ts";
import type { AnsweredRequests } from "./handoff.ts";
import { contains, type SeqRange } from "./view-state.ts";

/** Enough to know a message by. */
const OPENING_CHARS = 80;

/**
 * @param rows that the view had before the generation was made
 * @param covered by the generation
 * @returns null where every request that is shown is still to be answered, or has its answer in view
 */
export const answeredRequests = (rows: readonly LogRow[], covered: readonly SeqRange[]): AnsweredRequests | null => {
  const frontier = covered.at(-1)?.to ?? 0;
  const open = openAsk(rows);
  const answered = rows.filter(
    (row) => row.seq < frontier && row !== open && !contains(covered, row.seq) && isUserOriginated(row),
  );
  const last = answered.at(-1);
  if (last === undefined) return null;
  const opening = redact(askText(last)).text.replace(/\s+/g, " ").trim().slice(0, OPENING_CHARS).toWellFormed();
  return { count: answered.length, opening };
};
