/** Sending for a run that is stored: the queue takes it up. */
import type { RunId, SessionId, TenantId } from "../protocol/ids.ts";
import type { Deps } from "./deps.ts";

export interface RunOf {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
}

/** Sends for a run; asking again does no harm. @param runId null for none @throws what the queue fails with */
export const sendForNext = async (
  { queue }: Pick<Deps, "queue">,
  { tenantId, sessionId }: RunOf,
  runId: RunId | null,
): Promise<void> => {
  if (runId !== null) await queue.send({ v: 1, type: "run_turn", tenantId, sessionId, runId });
};
