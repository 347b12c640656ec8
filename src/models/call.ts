/**
 * One call of a provider's SDK under the turn's deadline: what the providers share. The SDKs come from one generator, so they retry,
 * time out and fail alike; each is handed in by its provider.
 */
import { type CallWatch, type Timers, watchCall } from "./call-watch.ts";
import { CallAborted, ModelError } from "./errors.ts";
import { readOverflow } from "./overflow.ts";
import type { CallOptions, ResolveMedia } from "./provider.ts";
import { isBillingText, isTemplateText, readRetryAfterMs, toModelError } from "./provider-errors.ts";

/** What every provider is made with. */
export interface ProviderSettings {
  readonly baseURL: string;
  readonly fetch: typeof fetch;
  readonly timers: Timers;
  readonly resolveMedia: ResolveMedia;
  /** Further attempts after a failed one; `DEFAULT_MAX_RETRIES` when absent. */
  readonly maxRetries?: number;
  /** Longest silence; `DEFAULT_IDLE_TIMEOUT_MS` when absent. */
  readonly idleTimeoutMs?: number;
}

/** The SDKs' default: 0.5 s and 1 s of back-off ride out a hiccup, and an outage still shows within a turn. */
export const DEFAULT_MAX_RETRIES = 2;

/** Longest silence before an answer counts as lost (S7). Pings count as life: thinking may be long and unseen. */
export const DEFAULT_IDLE_TIMEOUT_MS = 120_000;

/** A wait that the provider asks for beyond this is the caller's business: a turn does not hold a connection for it. */
const MAX_RETRY_WAIT_MS = 60_000;

/** How long a connection may stay open after the answer's last event. */
export const AFTER_END_MS = 1_000;

/** The SDKs log answers that they cannot parse; nothing of it may reach a log. */
export const silent = { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} };

/** The options of a client that are the same for every SDK. Every one is given: what is left out, an SDK takes from the environment (platform.md). */
export interface ClientOptions {
  readonly baseURL: string;
  readonly fetch: typeof fetch;
  readonly maxRetries: number;
  readonly timeout: number;
  readonly logger: typeof silent;
  readonly logLevel: "off";
}

/** What the pieces of one call share. */
export interface Call<Client> {
  readonly client: Client;
  readonly requestOptions: { readonly signal: AbortSignal; readonly timeout: number; readonly maxRetries: number };
  readonly watch: CallWatch;
  /** From the newest answer's headers. */
  requestId: string | undefined;
  began: boolean;
}

/** What is the provider's own in a call. */
export interface CallPlan<Client> {
  /** The request body as text, sent in place of the one that the SDK would write (V9); undefined for a GET. */
  readonly body: string | undefined;
  readonly maxRetries: number;
  readonly client: (options: ClientOptions) => Client;
  /** Brings the body of an error into the shape that the SDK reads; without it, it stays. */
  readonly errorBody?: (text: string) => string;
}

/**
 * A rejected attempt, marked as final when another could not help: the request itself is too large, there
 * is no credit, a chat template refused it, or the wait that the provider asks for is too long for the turn. The SDK obeys `x-should-retry`.
 */
const judgeRetry = async (
  response: Response,
  nowMs: number,
  deadlineMs: number,
  errorBody: (text: string) => string,
): Promise<Response> => {
  const text = await response.text();
  const headers = new Headers(response.headers);
  // The body is decoded now.
  headers.delete("content-encoding");
  headers.delete("content-length");
  const waitMs = readRetryAfterMs(headers, nowMs) ?? 0;
  const isTooLong = waitMs > MAX_RETRY_WAIT_MS || nowMs + waitMs >= deadlineMs;
  if (isTooLong || readOverflow(response.status, text) || isBillingText(text) || isTemplateText(text))
    headers.set("x-should-retry", "false");
  return new Response(errorBody(text), { status: response.status, headers });
};

/** The same answer, telling of every chunk that passes. */
const tapped = (response: Response, onChunk: () => void): Response => {
  if (!response.body) return response;
  const tap = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      onChunk();
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(tap), { status: response.status, headers: response.headers });
};

/**
 * Makes one call under the turn's deadline.
 * @throws ModelError for whatever goes wrong
 */
export const withCall = async <Client, T>(
  settings: ProviderSettings,
  options: CallOptions,
  plan: CallPlan<Client>,
  run: (call: Call<Client>) => Promise<T>,
): Promise<T> => {
  // Taken out of the object: a runtime's fetch refuses to be called as a method of another.
  const { fetch, timers } = settings;
  const { body, maxRetries } = plan;
  const idleMs = settings.idleTimeoutMs ?? DEFAULT_IDLE_TIMEOUT_MS;
  if (options.signal.aborted) throw new CallAborted();
  const remainingMs = options.deadlineMs - timers.nowMs();
  if (remainingMs <= 0) throw new ModelError({ kind: "timeout", what: "deadline" });

  const watch = watchCall(timers, options.signal, options.deadlineMs);
  const fetchBody: typeof fetch = async (input, init) => {
    // Until the headers come, the SDK's own time-out counts; it leads to another attempt.
    watch.rest();
    const response = await fetch(input, body === undefined ? init : { ...init, body });
    call.requestId = response.headers.get("request-id") ?? response.headers.get("x-request-id") ?? undefined;
    watch.touch(idleMs);
    if (response.ok) {
      call.began = true;
      return tapped(response, () => watch.touch(idleMs));
    }
    const judged = await judgeRetry(
      response,
      timers.nowMs(),
      options.deadlineMs,
      plan.errorBody ?? ((text: string) => text),
    );
    watch.rest();
    return judged;
  };
  const timeout = Math.ceil(Math.min(idleMs, remainingMs));
  const shared: ClientOptions = {
    baseURL: settings.baseURL,
    fetch: fetchBody,
    maxRetries,
    timeout,
    logger: silent,
    logLevel: "off",
  };
  const call: Call<Client> = {
    client: plan.client(shared),
    requestOptions: { signal: watch.signal, timeout, maxRetries },
    watch,
    requestId: undefined,
    began: false,
  };
  try {
    return await run(call);
  } catch (error) {
    const abortedBy = watch.abortedBy();
    throw toModelError(error, {
      began: call.began,
      nowMs: timers.nowMs(),
      ...(abortedBy === undefined ? {} : { abortedBy }),
      ...(call.requestId === undefined ? {} : { requestId: call.requestId }),
    });
  } finally {
    watch.stop();
  }
};
