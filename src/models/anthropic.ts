/** The Messages API through Anthropic's SDK: Anthropic itself, or any server that speaks its protocol. */
import Anthropic from "@anthropic-ai/sdk";
import { addEvent, finishAnswer, isWhole, newAnswer } from "./answer.ts";
import { type CallWatch, type Timers, watchCall } from "./call-watch.ts";
import { CallAborted, ModelError } from "./errors.ts";
import { readOverflow } from "./overflow.ts";
import type { CallOptions, Capabilities, ModelInfo, Provider, ResolveMedia } from "./provider.ts";
import { isBillingText, readRetryAfterMs, toModelError } from "./provider-errors.ts";
import { anthropicBody, anthropicCountBody } from "./request-body.ts";

export interface AnthropicSettings {
  readonly apiKey: string;
  /** Without `/v1`; given even for Anthropic itself, since the SDK would otherwise read the environment (platform.md). */
  readonly baseURL: string;
  readonly fetch: typeof fetch;
  readonly timers: Timers;
  readonly resolveMedia: ResolveMedia;
  /** Further attempts after a failed one; `DEFAULT_MAX_RETRIES` when absent. */
  readonly maxRetries?: number;
  /** Longest silence; `DEFAULT_IDLE_TIMEOUT_MS` when absent. */
  readonly idleTimeoutMs?: number;
  /** What a server that only speaks the protocol cannot do. */
  readonly capabilities?: Partial<Capabilities>;
}

/** The SDK's default: 0.5 s and 1 s of back-off ride out a hiccup, and an outage still shows within a turn. */
export const DEFAULT_MAX_RETRIES = 2;

/** Longest silence before an answer counts as lost (S7). Pings count as life: thinking may be long and unseen. */
export const DEFAULT_IDLE_TIMEOUT_MS = 120_000;

/** A wait that the provider asks for beyond this is the caller's business: a turn does not hold a connection for it. */
const MAX_RETRY_WAIT_MS = 60_000;

/** How long a connection may stay open after the answer's last event. */
const AFTER_END_MS = 1_000;

const CAPABILITIES: Capabilities = {
  promptCaching: true,
  tokenCounting: true,
  strictAlternation: false,
  thinking: true,
};

/** The SDK logs answers that it cannot parse; nothing of it may reach a log. */
const silent = { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} };

/** What the pieces of one call share. */
interface Call {
  readonly client: Anthropic;
  readonly requestOptions: { readonly signal: AbortSignal; readonly timeout: number; readonly maxRetries: number };
  readonly watch: CallWatch;
  /** From the newest answer's headers. */
  requestId: string | undefined;
  began: boolean;
}

/**
 * A rejected attempt, marked as final when another could not help: the request itself is too large, there
 * is no credit, or the wait that the provider asks for is too long for the turn. The SDK obeys `x-should-retry`.
 */
const judgeRetry = async (response: Response, nowMs: number, deadlineMs: number): Promise<Response> => {
  const text = await response.text();
  const headers = new Headers(response.headers);
  // The body is decoded now.
  headers.delete("content-encoding");
  headers.delete("content-length");
  const waitMs = readRetryAfterMs(headers, nowMs) ?? 0;
  const tooLong = waitMs > MAX_RETRY_WAIT_MS || nowMs + waitMs >= deadlineMs;
  if (tooLong || readOverflow(response.status, text) || isBillingText(text)) headers.set("x-should-retry", "false");
  return new Response(text, { status: response.status, headers });
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
 * @param body the request body as text, sent in place of the one that the SDK would write (V9); undefined for a GET
 */
const withCall = async <T>(
  settings: AnthropicSettings,
  options: CallOptions,
  body: string | undefined,
  maxRetries: number,
  run: (call: Call) => Promise<T>,
): Promise<T> => {
  // Taken out of the object: a runtime's fetch refuses to be called as a method of another.
  const { fetch, timers } = settings;
  const idleMs = settings.idleTimeoutMs ?? DEFAULT_IDLE_TIMEOUT_MS;
  if (options.signal.aborted) throw new CallAborted();
  const remainingMs = options.deadlineMs - timers.nowMs();
  if (remainingMs <= 0) throw new ModelError({ kind: "timeout", what: "deadline" });

  const watch = watchCall(timers, options.signal, options.deadlineMs);
  const fetchBody: typeof fetch = async (input, init) => {
    // Until the headers come, the SDK's own time-out counts; it leads to another attempt.
    watch.rest();
    const response = await fetch(input, body === undefined ? init : { ...init, body });
    call.requestId = response.headers.get("request-id") ?? undefined;
    watch.touch(idleMs);
    if (response.ok) {
      call.began = true;
      return tapped(response, () => watch.touch(idleMs));
    }
    const judged = await judgeRetry(response, timers.nowMs(), options.deadlineMs);
    watch.rest();
    return judged;
  };
  const timeout = Math.ceil(Math.min(idleMs, remainingMs));
  const call: Call = {
    // Every option is given: what is left out, the SDK takes from the environment (platform.md).
    client: new Anthropic({
      apiKey: settings.apiKey,
      authToken: null,
      webhookKey: null,
      baseURL: settings.baseURL,
      fetch: fetchBody,
      maxRetries,
      timeout,
      logger: silent,
      logLevel: "off",
      openTelemetry: false,
    }),
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

/** Stands in for the parameters that the SDK would serialise; the body that is sent is the text. */
const STAND_IN = { model: "", max_tokens: 1, messages: [] };

/** A provider that calls the Messages API. No state between calls, no timer or connection outlives one. */
export const anthropicProvider = (settings: AnthropicSettings): Provider => {
  const capabilities: Capabilities = { ...CAPABILITIES, ...settings.capabilities };
  const maxRetries = settings.maxRetries ?? DEFAULT_MAX_RETRIES;
  return {
    name: "anthropic",
    capabilities,

    generate: async (request, options) => {
      const body = await anthropicBody(
        request,
        {
          stream: true,
          promptCaching: capabilities.promptCaching,
          ...(options.user === undefined ? {} : { user: options.user }),
        },
        settings.resolveMedia,
      );
      return withCall(settings, options, body, maxRetries, async (call) => {
        const answer = newAnswer();
        try {
          // Not `stream()`: it parses tool input as it goes, at a cost, and fails for good where the model wrote broken JSON.
          // What `stream()` guards against is checked here: an answer without its end, and an iteration ended by an abort.
          const events = await call.client.messages.create({ ...STAND_IN, stream: true }, call.requestOptions);
          for await (const event of events) {
            const delta = addEvent(answer, event);
            if (answer.stopped) call.watch.touch(AFTER_END_MS);
            if (delta) options.onDelta?.(delta);
          }
          if (call.watch.signal.aborted) throw new Anthropic.APIUserAbortError();
        } catch (error) {
          // A whole answer stays one, whatever happens to the connection afterwards.
          if (!isWhole(answer)) throw error;
        }
        return finishAnswer(answer, call.requestId);
      });
    },

    countTokens: async (request, options) => {
      const body = await anthropicCountBody(request, settings.resolveMedia);
      // No second attempt: the caller has an estimate to fall back on (E5).
      return withCall(settings, options, body, 0, async (call) => {
        const { input_tokens: tokens } = await call.client.messages.countTokens(STAND_IN, call.requestOptions);
        if (!Number.isSafeInteger(tokens))
          throw new ModelError({ kind: "server" }, { detail: "a count without a number" });
        return tokens;
      });
    },

    modelInfo: (id, options) =>
      withCall(settings, options, undefined, maxRetries, async (call): Promise<ModelInfo | undefined> => {
        try {
          const info = await call.client.models.retrieve(id, {}, call.requestOptions);
          const { max_input_tokens: maxInputTokens, max_tokens: maxOutputTokens } = info;
          return typeof maxInputTokens === "number" && typeof maxOutputTokens === "number"
            ? { id: info.id, maxInputTokens, maxOutputTokens }
            : undefined;
        } catch (error) {
          if (error instanceof Anthropic.NotFoundError) return undefined;
          throw error;
        }
      }),
  };
};
