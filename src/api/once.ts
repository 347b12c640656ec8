/** An operation that is more than one transaction, done once per `Idempotency-Key` (api.md, "Idempotency"). */
import { answerClaim, releaseClaim, takeClaim } from "../store/claims.ts";
import type { Claim } from "../store/idempotency.ts";
import type { Ctx } from "./env.ts";
import { ApiError } from "./errors.ts";
import { claimOf, idempotencyMismatch, markReplayed } from "./idempotency.ts";

/** How an equal request waits for the first one's answer: so often, with so many ms between. */
const POLLS = 120;
const POLL_MS = 500;

export interface OnceAnswer {
  readonly status: 200 | 202;
  /** JSON text, without content. */
  readonly body: string;
}

const show = (c: Ctx, { status, body }: OnceAnswer): Response =>
  c.body(body, status, { "Content-Type": "application/json" });

/** The stored form: status and body in one text. */
const pack = ({ status, body }: OnceAnswer): string => `${status}${body}`;
const unpack = (text: string): OnceAnswer => ({
  status: text.startsWith("202") ? 202 : 200,
  body: text.slice("200".length),
});

const perform = async (c: Ctx, claim: Claim, work: () => Promise<OnceAnswer>): Promise<Response> => {
  const { db } = c.get("deps");
  try {
    const answer = await work();
    await answerClaim(db, claim, pack(answer));
    return show(c, answer);
  } catch (error) {
    // What failed may be tried again with the same key.
    await releaseClaim(db, claim).catch(() => undefined);
    throw error;
  }
};

/**
 * Does the work, or answers with what an equal request got, waiting for it while it is under way.
 * @param owner of the key: the tenant
 * @param resourceId what the work goes by, for instance its run
 * @throws ApiError `idempotency_mismatch`, or `session_busy` when the first request takes too long to wait for
 */
export const once = async (
  c: Ctx,
  owner: string,
  resourceId: string,
  work: () => Promise<OnceAnswer>,
): Promise<Response> => {
  const { db, sleep } = c.get("deps");
  const claim = await claimOf(c, owner, resourceId);
  if (claim === null) return show(c, await work());
  for (let poll = 0; ; poll++) {
    const state = await takeClaim(db, claim);
    if (state.kind === "ours") return perform(c, claim, work);
    if (state.kind === "mismatch") throw idempotencyMismatch();
    if (state.response !== null) {
      markReplayed(c);
      return show(c, unpack(state.response));
    }
    if (poll >= POLLS) {
      throw new ApiError("session_busy", "The first request with this Idempotency-Key is still under way.", {
        retryAfterSeconds: 10,
      });
    }
    await sleep(POLL_MS);
  }
};
