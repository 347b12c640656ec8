/** One attempt to deliver: one signed POST. Whatever happens is an outcome. */
import { Webhook } from "standardwebhooks";
import { checkOutboundUrl } from "../../protocol/outbound-url.ts";

/** Most of an answer that is read, in bytes; what it says is not kept. */
const MAX_ANSWER_BYTES = 64 * 1024;

export interface Attempt {
  readonly id: string;
  readonly url: string;
  /** Sent as it is. */
  readonly payload: string;
  /** All that are valid sign (Standard Webhooks, rotation). At least one. */
  readonly secrets: readonly string[];
  /** Ms since the epoch, by the Worker's clock: receivers compare it with theirs. */
  readonly nowMs: number;
  /** Longest wait for the answer, in ms. */
  readonly timeoutMs: number;
  readonly allowPrivateUrls: boolean;
  readonly fetch: typeof fetch;
}

export type AttemptOutcome =
  | { readonly kind: "delivered"; readonly status: number }
  /** The receiver wants no more of it (410). */
  | { readonly kind: "gone"; readonly status: number }
  /** May go better later. */
  | { readonly kind: "failed"; readonly status: number | null; readonly error: string }
  /** Will never go better. */
  | { readonly kind: "refused"; readonly error: string };

/** The headers of Standard Webhooks for these bytes. */
const signed = ({ id, payload, secrets, nowMs }: Attempt): Readonly<Record<string, string>> => {
  const at = new Date(nowMs);
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(nowMs / 1000)),
    "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(id, at, payload)).join(" "),
  };
};

/** Reads what the receiver says, within the limit, so that it is not cut off in the middle of a short answer. */
const drain = async (response: Response): Promise<void> => {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  let sizeBytes = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    sizeBytes += part.value.byteLength;
    if (sizeBytes >= MAX_ANSWER_BYTES) break;
  }
  await reader.cancel();
};

const judge = (status: number): AttemptOutcome => {
  if (status >= 200 && status < 300) return { kind: "delivered", status };
  if (status === 410) return { kind: "gone", status };
  const error =
    status >= 300 && status < 400
      ? `the receiver answered ${status}; redirects are not followed`
      : `the receiver answered ${status}`;
  return { kind: "failed", status, error };
};

/** Makes the attempt. The URL is checked again: what may be called can have changed since it was given. */
export const attemptDelivery = async (attempt: Attempt): Promise<AttemptOutcome> => {
  const problem = checkOutboundUrl(attempt.url, attempt.allowPrivateUrls);
  if (problem !== null) return { kind: "refused", error: `the URL ${problem}` };
  const signal = AbortSignal.timeout(attempt.timeoutMs);
  try {
    const response = await attempt.fetch(attempt.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "User-Agent": "hango-webhooks/1", ...signed(attempt) },
      body: attempt.payload,
      redirect: "manual",
      signal,
    });
    // The status is the receiver's word; an answer that breaks off after it changes nothing.
    await drain(response).catch(() => undefined);
    return judge(response.status);
  } catch {
    const error = signal.aborted
      ? `the receiver did not answer within ${attempt.timeoutMs / 1000} s`
      : "the receiver could not be reached";
    return { kind: "failed", status: null, error };
  }
};
