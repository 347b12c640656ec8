/** The guaranteed reply: when the run of a delivery has ended, however it ended, its sender is told, whatever the model did. */
import type { RunId, TenantId } from "../protocol/ids.ts";
import type { DeliveryRef } from "../store/deliveries.ts";
import { type ReplyTask, repliesOfRun, settleReply, takeReply } from "../store/replies.ts";
import type { Deps } from "../turns/deps.ts";
import type { TriggerReply } from "../turns/queue.ts";
import { sendAll } from "../turns/send-batch.ts";
import { callOf, makeCall } from "./call.ts";
import { configOf, eventView } from "./event.ts";

/** Waits between attempts, in s: twice as long each time, some 8 hours in all. */
const WAIT_SECONDS = { first: 30, longest: 14_400 };

/** Attempts before a reply is given up. */
const MAX_ATTEMPTS = 10;

/** Longest delay that a queue takes, in s. */
const MAX_QUEUE_DELAY_SECONDS = 43_200;

/** What the templates of a reply see: the event, and the run with its text. */
const viewOf = (task: ReplyTask): object => {
  const { run } = task;
  const payload: unknown = task.payload === null ? null : JSON.parse(task.payload);
  return {
    ...eventView(task.trigger, task.eventId ?? task.deliveryId, task.headers, payload),
    ...reportOf(task),
    run: { id: run.id, status: run.status, output_text: run.outputText ?? "", error: run.error?.message ?? "" },
  };
};

/** The body of a reply whose trigger names none. */
const reportOf = ({ deliveryId, eventId, sessionId, run }: ReplyTask) => ({
  delivery_id: deliveryId,
  event_id: eventId,
  session_id: sessionId,
  run_id: run.id,
  status: run.status,
  stop_reason: run.stopReason,
  output_text: run.outputText ?? "",
  error: run.error === null ? null : { code: run.error.code, message: run.error.message },
  finished_at: run.finishedAt,
});

/** One attempt at one reply. */
const attempt = async (deps: Deps, ref: DeliveryRef, task: ReplyTask): Promise<"delivered" | "again" | "failed"> => {
  const { reply } = configOf(task.trigger);
  // The setting was taken back while the run was on.
  if (reply === undefined) return "failed";
  let call: ReturnType<typeof callOf>;
  try {
    call = callOf(reply, viewOf(task), reportOf(task), deps.config.allowPrivateUrls);
  } catch {
    call = null;
  }
  if (call === null) {
    deps.log.warn("a reply has no address that may be called", { delivery_id: ref.deliveryId });
    return "failed";
  }
  const outcome = await makeCall(deps.fetch, call, ref.deliveryId);
  if (outcome.kind === "ok") return "delivered";
  deps.log.warn("a reply was not taken", {
    delivery_id: ref.deliveryId,
    status: outcome.status,
    attempt: task.attempt,
  });
  return task.attempt >= MAX_ATTEMPTS ? "failed" : "again";
};

const sendAgain = (deps: Deps, ref: DeliveryRef, attempts: number): Promise<unknown> => {
  const wait = Math.min(WAIT_SECONDS.longest, WAIT_SECONDS.first * 2 ** (attempts - 1), MAX_QUEUE_DELAY_SECONDS);
  return deps.queue.send({ v: 1, type: "trigger_reply", ...ref }, { delaySeconds: wait });
};

/** The queue's message: makes the call, once it is due. Delivered at least once; the delivery's id is its `Idempotency-Key`. */
export const triggerReply = async (deps: Deps, { tenantId, deliveryId }: TriggerReply): Promise<void> => {
  const ref = { tenantId, deliveryId };
  const task = await takeReply(deps.db, ref, WAIT_SECONDS);
  if (task === undefined) return;
  const result = await attempt(deps, ref, task);
  if (result !== "again") return settleReply(deps.db, ref, result);
  // Should the queue not take it, the sweeper finds the reply when it is due.
  await sendAgain(deps, ref, task.attempt).catch(() => undefined);
};

/** A reply whose message failed too often: not the call, but hango's own work on it. */
export const giveUpReply = (deps: Deps, { tenantId, deliveryId }: TriggerReply): Promise<void> =>
  settleReply(deps.db, { tenantId, deliveryId }, "failed");

export const sendReplies = ({ queue }: Pick<Deps, "queue">, refs: readonly DeliveryRef[]): Promise<void> =>
  sendAll(
    queue,
    refs.map((ref) => ({ v: 1, type: "trigger_reply", ...ref })),
  );

/**
 * To be called when a run that a trigger made, or that input of a trigger joined, has ended: sends its replies on their way. The sweeper
 * does the same a little later for runs of which nobody tells.
 * @throws StoreUnavailable, or what the queue fails with
 */
export const onRunEnded = async (
  deps: Pick<Deps, "db" | "queue">,
  run: { readonly tenantId: TenantId; readonly runId: RunId },
): Promise<void> => sendReplies(deps, await repliesOfRun(deps.db, run.tenantId, run.runId));
