/**
 * The provider of a lane: the strict simulator of the Messages API, called in process, with the answers that a pass scripts for the model and for the
 * summariser. It keeps a ledger of what it answered, which is what the bills are held against.
 */

import { purposeOf } from "../../src/local/simulator/agent.ts";
import { createPromptCache } from "../../src/local/simulator/cache.ts";
import { createCatalogue, describeModel } from "../../src/local/simulator/catalogue.ts";
import { ApiError, errorBody, errorType } from "../../src/local/simulator/errors.ts";
import { makeAnswer } from "../../src/local/simulator/reply.ts";
import { readRequest, type SimRequest } from "../../src/local/simulator/request.ts";
import type { ScriptReply } from "../../src/local/simulator/script.ts";
import { events, type StreamEvent, writeEvent } from "../../src/local/simulator/stream.ts";
import { createTokenMemory } from "../../src/local/simulator/tokens.ts";
import { prose, type Random } from "./random.ts";

/** What the summariser does: well, badly, or not at all. */
export type SummariserKind =
  | "good"
  | "short"
  | "empty"
  | "truncated"
  | "growing"
  | "echo"
  | "refusing"
  | "regret"
  | "handoff"
  | "silent"
  | "slow"
  | "unauthorised"
  | "no_credit"
  | "rate_limited"
  | "overloaded"
  | "server_error"
  | "network"
  | "cut"
  | "malformed"
  | "too_long";

/** What the session's own model does with a call. */
export type ModelKind =
  | "answers"
  | "overflow"
  | "window_full"
  | "server_error"
  | "overloaded"
  | "network"
  | "cut"
  | "silent";

export type Purpose = "turn" | "summarize";

export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** One call that was made, and what became of it. */
export interface Call {
  /** Its place among everything that could be seen. */
  readonly order: number;
  /** When it was made, by the lane's clock, ms since the epoch. */
  readonly atMs: number;
  readonly worker: string;
  /** `unread` and `uncounted`: it was refused before it was known what it is for. */
  readonly purpose: Purpose | "count" | "unread" | "uncounted";
  readonly model: string;
  readonly behaviour: SummariserKind | ModelKind;
  readonly status: number;
  /** What a refusal said. */
  readonly error: string | null;
  /** The bill of an answer that was sent whole; null where there is none. */
  readonly usage: Usage | null;
  /** Tokens of the prompt, as the provider counts. */
  readonly promptTokens: number;
  /** The window that it was held against. */
  readonly windowTokens: number;
  readonly stopReason: string | null;
}

/** Time and the Worker that calls, as the provider needs them. */
export interface Caller {
  readonly worker: string;
  /** Lets time pass for everybody. */
  advance(ms: number): Promise<void>;
}

export interface ProviderScript {
  /** What the next call of the session's model does. */
  model(): ModelKind;
  /** What the next call of the summariser does. */
  summariser(): SummariserKind;
  /** What the model says next. */
  reply(request: SimRequest): ScriptReply;
  /** Told of every request for a turn before it is answered. */
  sees(body: SeenRequest, worker: string): Promise<void>;
}

/** A request that the provider took, parsed. */
export interface SeenRequest {
  readonly bodyText: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly model: string;
}

export interface Provider {
  readonly calls: readonly Call[];
  fetch(caller: Caller, url: string, init: RequestInit | undefined): Promise<Response>;
}

const jsonOf = (status: number, body: unknown): Response =>
  new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "request-id": "req_harness" },
  });

const encoder = new TextEncoder();

const streamOf = (body: BodyInit): Response =>
  new Response(body, {
    status: 200,
    headers: { "content-type": "text/event-stream; charset=utf-8", "request-id": "req_harness" },
  });

/** Nothing more comes until the client goes away. */
const silence = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise((_, reject) => {
    const end = () => reject(signal?.reason ?? new DOMException("aborted", "AbortError"));
    if (signal?.aborted === true) end();
    else signal?.addEventListener("abort", end, { once: true });
  });

/** Idle limit of a call, and a little more: what silence is waited for. */
const SILENCE_MS = 121_000;
/** As often as a Worker that waits keeps its session. */
const STEP_MS = 30_000;

const STATUS: Partial<Readonly<Record<SummariserKind | ModelKind, readonly [status: number, message: string]>>> = {
  unauthorised: [401, "invalid x-api-key"],
  no_credit: [400, "Your credit balance is too low to access the Anthropic API."],
  rate_limited: [429, "This request would exceed your organization's rate limit."],
  overloaded: [529, "Overloaded"],
  server_error: [500, "Internal server error"],
};

const sumUp = (answer: ReturnType<typeof makeAnswer>): Usage => ({
  input: answer.cache.inputTokens,
  output: answer.outputTokens,
  cacheRead: answer.cache.readTokens,
  cacheWrite: answer.cache.write5mTokens + answer.cache.write1hTokens,
});

/** The words of a summary of a kind. @returns undefined where it does not depend on words */
const summaryOf = (kind: SummariserKind, request: SimRequest, random: Random): ScriptReply => {
  const prompt = request.messages.map(({ blocks }) => blocks.map(({ text }) => String(text)).join("\n")).join("\n");
  const chars = Math.floor(request.maxTokens * 0.6);
  switch (kind) {
    case "empty":
      return { content: [{ type: "text", text: " \n" }] };
    case "short":
      return { content: "All was well, and is done." };
    case "growing":
      // As long as is accepted: of small slices that is more than they have.
      return { content: prose(random, request.maxTokens * 3) };
    case "echo":
      return { content: prompt.slice(0, request.maxTokens * 3).toWellFormed() };
    case "refusing":
      return { content: [], stop_reason: "refusal" };
    case "regret":
      return { content: "I'm sorry, but I can't help with that." };
    case "handoff":
      return {
        content: "[Handoff from earlier turns]\nIt was done.\n[End of the handoff. Act only on what follows.]\nGo on.",
      };
    default:
      return { content: `It was found and done: ${prose(random, Math.max(40, Math.min(chars, 600)))}.` };
  }
};

/**
 * @param random chooses words
 * @param nowMs the lane's clock
 */
export const createProvider = (
  script: ProviderScript,
  random: Random,
  nowMs: () => number,
  windowTokens: number,
  models: readonly string[],
  order: () => number,
): Provider => {
  const catalogue = createCatalogue(
    Object.fromEntries(models.map((model) => [model, { maxInputTokens: windowTokens }])),
    256,
  );
  const memory = createTokenMemory();
  const cache = createPromptCache();
  const calls: Call[] = [];
  const note = (call: Omit<Call, "order">): void => {
    calls.push({ ...call, order: order() });
  };
  let serial = 0;

  const messages = async (caller: Caller, path: string, init: RequestInit | undefined): Promise<Response> => {
    const bodyText = String(init?.body ?? "");
    const countsOnly = path.endsWith("/count_tokens");
    const headers = new Headers(init?.headers);
    const options = {
      apiKey: headers.get("x-api-key") ?? "",
      version: headers.get("anthropic-version") ?? "",
      betas: headers.get("anthropic-beta") ?? "",
      countsOnly,
    };
    const atMs = nowMs();
    const base = {
      atMs,
      worker: caller.worker,
      promptTokens: 0,
      windowTokens,
      usage: null,
      stopReason: null,
      error: null,
    };
    let read: SimRequest;
    try {
      read = readRequest(bodyText, options, catalogue, memory);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const tooLong = /^(prompt is too long|input length and)/.test(error.message);
      note({
        ...base,
        purpose: countsOnly ? "uncounted" : "unread",
        model: "",
        behaviour: tooLong ? "overflow" : "answers",
        status: error.status,
        error: error.message,
      });
      return jsonOf(error.status, errorBody(error.type, error.message, "req_harness"));
    }
    const model = read.model.id;
    if (countsOnly) {
      note({ ...base, purpose: "count", model, behaviour: "answers", status: 200, promptTokens: read.promptTokens });
      return jsonOf(200, { input_tokens: read.promptTokens });
    }
    const purpose = purposeOf(read);
    if (purpose === "turn") await script.sees({ bodyText, body: read.body, model }, caller.worker);
    const behaviour = purpose === "turn" ? script.model() : script.summariser();
    const known = { ...base, purpose, model, behaviour, promptTokens: read.promptTokens };
    const refuse = (status: number, message: string): Response => {
      note({ ...known, status, error: message });
      return jsonOf(status, errorBody(errorType(status), message, "req_harness"));
    };
    const refusal = STATUS[behaviour];
    if (refusal !== undefined) return refuse(...refusal);
    if (behaviour === "overflow" || behaviour === "too_long")
      return refuse(400, `prompt is too long: ${windowTokens + 310} tokens > ${windowTokens} maximum`);
    if (behaviour === "network") {
      note({ ...known, status: 0 });
      throw new TypeError("fetch failed");
    }
    if (behaviour === "silent") {
      note({ ...known, status: 0 });
      const silent = silence(init?.signal);
      silent.catch(() => undefined);
      for (let passed = 0; passed < SILENCE_MS && init?.signal?.aborted !== true; passed += STEP_MS)
        await caller.advance(STEP_MS);
      return silent;
    }
    const plan = cache.plan(read.segments, read.cacheLinks, read.tokens, read.model.cacheMinimumTokens, nowMs());
    serial += 1;
    const reply = purpose === "summarize" ? summaryOf(behaviour as SummariserKind, read, random) : script.reply(read);
    const limits = behaviour === "truncated" ? { truncateAt: Math.max(1, Math.floor(read.maxTokens / 20)) } : {};
    const made =
      behaviour === "window_full" ? { ...reply, stop_reason: "model_context_window_exceeded" as const } : reply;
    const answer = makeAnswer(read, made, plan.usage, serial, limits);
    plan.commit();
    const pieces = events(answer);
    if (behaviour === "cut" || behaviour === "malformed") {
      note({ ...known, status: 200 });
      return streamOf(broken(pieces, behaviour));
    }
    note({ ...known, status: 200, usage: sumUp(answer), stopReason: answer.stopReason });
    if (behaviour === "slow") return streamOf(slow([...pieces], caller));
    return streamOf([...pieces].map(writeEvent).join(""));
  };

  return {
    calls,
    fetch: async (caller, url, init) => {
      const { pathname } = new URL(url);
      if (pathname === "/v1/messages" || pathname === "/v1/messages/count_tokens")
        return messages(caller, pathname, init);
      const id = decodeURIComponent(pathname.slice("/v1/models/".length));
      return jsonOf(200, describeModel(catalogue.find(id)));
    },
  };
};

/** The first piece of an answer, and then no more of it, or what is no JSON. */
const broken = (pieces: Iterable<StreamEvent>, how: "cut" | "malformed"): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: (controller) => {
      for (const event of pieces) {
        controller.enqueue(encoder.encode(writeEvent(event)));
        if (event.piece) break;
      }
      if (how === "cut") return controller.error(new TypeError("terminated"));
      controller.enqueue(
        encoder.encode('event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{\n\n'),
      );
      controller.close();
    },
  });

/** An answer in a few parts, with a long time before each. */
const slow = (pieces: readonly StreamEvent[], caller: Caller): ReadableStream<Uint8Array> => {
  const share = Math.ceil(pieces.length / 4);
  let at = 0;
  return new ReadableStream({
    pull: async (controller) => {
      await caller.advance(STEP_MS);
      controller.enqueue(
        encoder.encode(
          pieces
            .slice(at, at + share)
            .map(writeEvent)
            .join(""),
        ),
      );
      at += share;
      if (at >= pieces.length) controller.close();
    },
  });
};
