/** What travels through the queue: ids only, and a version, never content (128 KB a message; at least once, in no order). */
import type { DeliveryId, RunId, SessionId, TenantId, WebhookDeliveryId } from "../protocol/ids.ts";

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

/** A pass of micro-compaction may be due (context section 11). */
export interface MicroCompact {
  readonly v: 1;
  readonly type: "micro_compact";
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

/** A run is to be started or continued. */
export interface RunTurn {
  readonly v: 1;
  readonly type: "run_turn";
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  readonly runId: RunId;
}

/** Something that a trigger received is to be made into a turn. */
export interface TriggerDelivery {
  readonly v: 1;
  readonly type: "trigger_delivery";
  readonly tenantId: TenantId;
  readonly deliveryId: DeliveryId;
}

/** The sender of what a trigger received is to get its reply. */
export interface TriggerReply {
  readonly v: 1;
  readonly type: "trigger_reply";
  readonly tenantId: TenantId;
  readonly deliveryId: DeliveryId;
}

/** An event is to be sent to a receiver. */
export interface WebhookDelivery {
  readonly v: 1;
  readonly type: "webhook_delivery";
  readonly tenantId: TenantId;
  readonly deliveryId: WebhookDeliveryId;
}

/** The files of a forked session are to be copied to it. */
export interface CopyFiles {
  readonly v: 1;
  readonly type: "copy_files";
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

/** Nothing is to be done: the doctor asks whether the queue takes messages. */
export interface Ping {
  readonly v: 1;
  readonly type: "ping";
}

/** Where the sender stood in its trace (W3C Trace Context); only where something is recorded. */
export interface Traced {
  readonly traceparent?: string;
}

export type QueueMessage = (
  | EraseObjects
  | CompactBacklog
  | MicroCompact
  | RunTurn
  | TriggerDelivery
  | TriggerReply
  | WebhookDelivery
  | CopyFiles
  | Ping
) &
  Traced;

/**
 * What does the work of each type of message. A room adds its own; the door puts them together.
 * A handler that throws has its message delivered again, later each time.
 */
export type QueueHandlers<Deps> = {
  readonly [T in QueueMessage["type"]]: (deps: Deps, message: Extract<QueueMessage, { type: T }>) => Promise<void>;
};
