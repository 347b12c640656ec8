/** What travels through the queue: ids only, and a version, never content (128 KB a message; at least once, in no order). */
import type { SessionId, TenantId } from "../protocol/ids.ts";

export interface EraseObjects {
  readonly v: 1;
  readonly type: "erase_objects";
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

export type QueueMessage = EraseObjects;
