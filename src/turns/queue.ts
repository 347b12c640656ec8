/** What travels through the queue: ids only, and a version, never content (128 KB a message; at least once, in no order). */
import type { SessionId, TenantId } from "../protocol/ids.ts";

export interface EraseObjects {
  readonly v: 1;
  readonly type: "erase_objects";
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

/** Rows of a session that a turn could not load are to be compacted in the background (V7). */
export interface CompactBacklog {
  readonly v: 1;
  readonly type: "compact_backlog";
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

export type QueueMessage = EraseObjects | CompactBacklog;
