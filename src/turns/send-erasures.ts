/** Sends for the rest of an erasure: the session's rows and objects, and those of its subagents. */
import type { TenantId } from "../protocol/ids.ts";
import type { Erased } from "../store/erasures.ts";
import type { Deps } from "./deps.ts";
import { sendAll } from "./send-batch.ts";

/** @throws what the queue fails with: the sweeper then sends for it */
export const sendErasures = (
  queue: Deps["queue"],
  tenantId: TenantId,
  { sessionId, subagents }: Erased,
): Promise<void> =>
  sendAll(
    queue,
    [sessionId, ...subagents].map((id) => ({ v: 1, type: "erase_objects", tenantId, sessionId: id })),
  );
