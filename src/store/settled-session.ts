/** A session with its settings and everything that its next request is made of: the part that does not depend on who looks. */
import type { SessionId, TenantId } from "../protocol/ids.ts";
import type { Row } from "./db.ts";
import type { Loaded } from "./loading.ts";
import { flag, number, numberOrNull, text, textOrNull } from "./rows.ts";

export interface SettledSession extends Loaded {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  readonly user: string | null;
  readonly model: string;
  readonly system: string | null;
  readonly tools: readonly Readonly<Record<string, unknown>>[];
  readonly settings: Readonly<Record<string, unknown>>;
  readonly todos: readonly unknown[];
  /** Files that the session was created with wait to be written. */
  readonly filesPending: boolean;
  /** How far below the session that a caller talks to: 0 for that one, more for a subagent's. */
  readonly depth: number;
  /** The session whose files these are: its own, or for a subagent's the one at the top. */
  readonly rootSessionId: SessionId;
  /** What its turns have cost so far, in USD at list price. */
  readonly costUsd: number;
  readonly nextSeq: number;
  readonly nextEvent: number;
  /** Assistant rows with a lower seq are sent without thinking: the highest floor that the head and the view have (V5). */
  readonly thinkingFloor: number;
  /** Seq of an assistant row whose results a dead run never stored; they belong at the seq after it (M7). */
  readonly openBatchSeq: number | null;
}

/** The columns that `settledSession` reads, from `sessions s` and `session_heads h`. */
export const SESSION_COLUMNS =
  "s.id as session_id, s.user_id, s.model, s.system, s.tools::text as tools, s.settings::text as settings, s.todos::text as todos, s.pending_files is not null as files_pending, s.cost_usd as session_cost_usd, s.depth, " +
  "coalesce(s.root_session_id, s.id) as root_session_id, " +
  "h.lease_holder, h.next_seq, h.next_event, h.open_batch_seq, h.thinking_floor";

export const settledSession = (row: Row, tenantId: TenantId, loaded: Loaded): SettledSession => ({
  ...loaded,
  tenantId,
  sessionId: text(row, "session_id") as SessionId,
  user: textOrNull(row, "user_id"),
  model: text(row, "model"),
  system: textOrNull(row, "system"),
  tools: JSON.parse(text(row, "tools")),
  settings: JSON.parse(text(row, "settings")),
  todos: JSON.parse(text(row, "todos")),
  filesPending: flag(row, "files_pending"),
  depth: number(row, "depth"),
  rootSessionId: text(row, "root_session_id") as SessionId,
  costUsd: number(row, "session_cost_usd"),
  nextSeq: number(row, "next_seq"),
  nextEvent: number(row, "next_event"),
  thinkingFloor: Math.max(number(row, "thinking_floor"), loaded.view?.thinkingFloor ?? 1),
  openBatchSeq: numberOrNull(row, "open_batch_seq"),
});
