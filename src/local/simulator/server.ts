/**
 * A Messages API and a chat completions server on loopback that are as strict as the real ones, for tests, demos and trying hango
 * without an account.
 * What it must do stands in the documentation of the Messages API; `script.ts` says how to drive it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { answerAs, purposeOf } from "./agent.ts";
import { createPromptCache } from "./cache.ts";
import type { Catalogue, ModelOverride } from "./catalogue.ts";
import { createCatalogue, describeModel, listChatModels } from "./catalogue.ts";
import { type ChatRequest, chatOverflow, readChatRequest } from "./chat-request.ts";
import { chatEvents, chatJson } from "./chat-stream.ts";
import { answerDoor } from "./door.ts";
import { ApiError, invalid } from "./errors.ts";
import { createGates } from "./gates.ts";
import type { Line, StatedOverflow } from "./play.ts";
import { faultReply, play, playBefore, sendError, sendJson } from "./play.ts";
import type { ReceivedRequest } from "./record.ts";
import { createRecord } from "./record.ts";
import { makeAnswer } from "./reply.ts";
import { MAX_BODY_BYTES, readRequest } from "./request.ts";
import type { ScriptEntry } from "./script.ts";
import { createScript } from "./script.ts";
import { events, messageJson } from "./stream.ts";
import { createTokenMemory } from "./tokens.ts";
import { VERSIONS } from "./validate.ts";

export interface SimulatorOptions {
  /** Default: any free port. */
  readonly port?: number;
  /** ms since the epoch, for the cache's time to live and the record; default: the machine's clock. */
  readonly clock?: () => number;
  /** API keys that are accepted; default: any. */
  readonly allowedKeys?: readonly string[];
  /** Models to change or add, by id. */
  readonly models?: Readonly<Record<string, ModelOverride>>;
  /** Shortest prefix that is cached, tokens; default 1,024. */
  readonly cacheMinimumTokens?: number;
}

export interface Simulator {
  /** `http://127.0.0.1:PORT`, to be used as `ANTHROPIC_BASE_URL`, and with `/v1` as `HANGO_OPENAI_BASE_URL`. */
  readonly url: string;
  /** Every request to the API so far, oldest first. */
  readonly requests: readonly ReceivedRequest[];
  /** Adds entries to the script. @throws z.ZodError when one is malformed */
  readonly script: (entries: readonly ScriptEntry[]) => void;
  /** Adds one entry to the script. */
  readonly enqueue: (entry: ScriptEntry) => void;
  /** How many entries of the script wait to be used. */
  readonly pending: () => number;
  /** Opens a gate that a `hold` names. */
  readonly release: (name: string) => void;
  /** Resolves once an answer waits at a gate. */
  readonly reached: (name: string) => Promise<void>;
  /** Changes models or adds some, until `reset`. */
  readonly setModels: (changes: Readonly<Record<string, ModelOverride>>) => void;
  /** Forgets script, requests, cache and model changes; opens all gates. */
  readonly reset: () => void;
  /** Ends every connection and stops listening. */
  readonly close: () => Promise<void>;
}

/** Reads a body; past the limit it is read on but not kept, so that the client gets to see the answer. */
const readBody = async (request: IncomingMessage): Promise<Buffer | undefined> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size <= MAX_BODY_BYTES) chunks.push(bytes);
  }
  return size > MAX_BODY_BYTES ? undefined : Buffer.concat(chunks);
};

const decode = (bytes: Buffer): string => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ApiError(400, "The request body is not valid JSON: it is not valid UTF-8");
  }
};

const header = (request: IncomingMessage, name: string): string => String(request.headers[name] ?? "");

/** A chat completions server may want no key; the Messages API does. */
const authenticate = (request: IncomingMessage, path: string, allowed: readonly string[] | undefined): string => {
  const bearer = /^Bearer\s+(.+)$/i.exec(header(request, "authorization"))?.[1];
  const key = bearer ?? header(request, "x-api-key");
  const isOpen = allowed === undefined && header(request, "anthropic-version") === "";
  if (key === "" && isOpen && (path === CHAT || path === "/v1/models")) return "";
  if (key === "") throw new ApiError(401, "an API key is required, as `Authorization: Bearer` or `x-api-key`");
  if (allowed !== undefined && !allowed.includes(key)) throw new ApiError(401, "invalid x-api-key");
  return key;
};

const checkVersion = (request: IncomingMessage): string => {
  const version = header(request, "anthropic-version");
  if (version === "") throw invalid("anthropic-version", "header is required");
  if (!VERSIONS.includes(version)) throw invalid("anthropic-version", `"${version}" is not a valid version`);
  return version;
};

const CHAT = "/v1/chat/completions";

/** A prompt over the window, in the words of the Messages API. */
const promptTooLong =
  (windowTokens: number) =>
  ({ tokens, limit = windowTokens }: StatedOverflow): ApiError =>
    new ApiError(400, `prompt is too long: ${tokens ?? limit + 8_310} tokens > ${limit} maximum`);

const listModels = (catalogue: Catalogue): string => {
  const data = catalogue.list().map(describeModel);
  return JSON.stringify({ data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null });
};

/** Starts a simulator on 127.0.0.1. */
export const startSimulator = async (options: SimulatorOptions = {}): Promise<Simulator> => {
  const clock = options.clock ?? Date.now;
  const catalogue = createCatalogue(options.models, options.cacheMinimumTokens);
  const script = createScript();
  const gates = createGates();
  const record = createRecord();
  const cache = createPromptCache();
  const memory = createTokenMemory();
  const prefixes = new Set<string>();
  let shiftMs = 0;
  let serial = 0;
  const nowMs = (): number => clock() + shiftMs;
  const advance = (ms: number): void => {
    shiftMs += ms;
  };
  const reset = (): void => {
    script.clear();
    gates.reset();
    record.clear();
    cache.clear();
    prefixes.clear();
    catalogue.reset();
    shiftMs = 0;
  };

  const answerMessages = async (line: Line, request: IncomingMessage, apiKey: string, path: string): Promise<void> => {
    const version = checkVersion(request);
    const bytes = await readBody(request);
    if (bytes === undefined) throw new ApiError(413, "Request exceeds the maximum allowed number of bytes.");
    const bodyText = decode(bytes);
    record.keep(line.slot, bodyText);
    const countsOnly = path === "/v1/messages/count_tokens";
    const read = readRequest(
      bodyText,
      { apiKey, version, betas: header(request, "anthropic-beta"), countsOnly },
      catalogue,
      memory,
    );
    const purpose = purposeOf(read);
    line.slot.purpose = purpose;
    const entry = script.take({ path, model: read.model.id, userId: read.userId, bodyText, purpose });
    const { maxInputTokens } = read.model;
    if (await playBefore(line, entry, promptTooLong(maxInputTokens))) return;
    if (countsOnly) return sendJson(line, 200, JSON.stringify({ input_tokens: read.promptTokens }));

    const plan = cache.plan(read.segments, read.cacheLinks, read.tokens, read.model.cacheMinimumTokens, nowMs());
    const fault = entry?.fault;
    const reply = entry?.reply ?? faultReply(fault) ?? answerAs(read);
    const stopReason = fault?.kind === "pause_turn" || fault?.kind === "refusal" ? fault.kind : reply.stop_reason;
    serial += 1;
    const answer = makeAnswer(
      read,
      stopReason === undefined ? reply : { ...reply, stop_reason: stopReason },
      plan.usage,
      serial,
      {
        ...(fault?.kind === "truncate" ? { truncateAt: fault.tokens ?? 5 } : {}),
        ...(fault?.kind === "refusal" && fault.explanation !== undefined ? { explanation: fault.explanation } : {}),
      },
    );
    plan.commit();
    if (entry?.until_whole === true && answer.stopReason === "model_context_window_exceeded") script.putBack(entry);
    await play(line, { events: () => events(answer), json: () => messageJson(answer) }, entry, read.stream);
  };

  /** How much of a prompt the prefix cache has: what an earlier request began with, from the cache's minimum on. */
  const cachedTokens = ({ links, tokens, request }: ChatRequest): number => {
    const known = links.findIndex((link) => !prefixes.has(link));
    const until = known < 0 ? links.length : known;
    const sum = tokens.slice(0, until).reduce((total, count) => total + count, 0);
    for (const link of links) prefixes.add(link);
    return sum >= request.model.cacheMinimumTokens ? sum : 0;
  };

  const answerChat = async (line: Line, request: IncomingMessage, apiKey: string, path: string): Promise<void> => {
    const bytes = await readBody(request);
    if (bytes === undefined) throw new ApiError(413, "Request entity too large");
    const bodyText = decode(bytes);
    record.keep(line.slot, bodyText);
    const read = readChatRequest(bodyText, apiKey, catalogue, memory);
    const { model, userId, promptTokens, stream } = read.request;
    const purpose = purposeOf(read.request);
    line.slot.purpose = purpose;
    const entry = script.take({ path, model: model.id, userId, bodyText, purpose });
    const overflow = ({ tokens, limit = model.maxInputTokens }: StatedOverflow) =>
      chatOverflow({ ...model, maxInputTokens: limit }, tokens ?? limit + 8_310);
    if (await playBefore(line, entry, overflow)) return;
    const fault = entry?.fault;
    const reply = entry?.reply ?? faultReply(fault) ?? answerAs(read.request);
    const stopReason = fault?.kind === "refusal" ? fault.kind : reply.stop_reason;
    serial += 1;
    const cached = cachedTokens(read);
    const cache = { inputTokens: promptTokens - cached, readTokens: cached, write5mTokens: 0, write1hTokens: 0 };
    const said = stopReason === undefined ? reply : { ...reply, stop_reason: stopReason };
    const limits = fault?.kind === "truncate" ? { truncateAt: fault.tokens ?? 5 } : {};
    const answer = makeAnswer(read.request, said, cache, serial, limits);
    const options = {
      cachedTokens: cached,
      promptTokens,
      includesUsage: read.includesUsage,
      strictTemplate: model.strictTemplate === true,
    };
    if (entry?.until_whole === true && answer.stopReason === "model_context_window_exceeded") script.putBack(entry);
    const outgoing = { events: () => chatEvents(answer, options), json: () => chatJson(answer, options) };
    await play(line, outgoing, entry, stream);
  };

  const route = async (line: Line, request: IncomingMessage, path: string): Promise<void> => {
    const apiKey = authenticate(request, path, options.allowedKeys);
    const method = request.method ?? "GET";
    if (method === "POST" && (path === "/v1/messages" || path === "/v1/messages/count_tokens")) {
      return answerMessages(line, request, apiKey, path);
    }
    if (method === "POST" && path === CHAT) return answerChat(line, request, apiKey, path);
    if (method === "GET" && path === "/v1/models" && header(request, "anthropic-version") === "") {
      const entry = script.take({ path, model: "", userId: "", bodyText: "", purpose: "turn" });
      if (await playBefore(line, entry, promptTooLong(0))) return;
      return sendJson(line, 200, listChatModels(catalogue.listChat()));
    }
    if (method === "GET" && (path === "/v1/models" || path.startsWith("/v1/models/"))) {
      checkVersion(request);
      const id = decodeURIComponent(path.slice("/v1/models/".length));
      const entry = script.take({ path, model: id, userId: "", bodyText: "", purpose: "turn" });
      if (await playBefore(line, entry, promptTooLong(0))) return;
      return sendJson(line, 200, id === "" ? listModels(catalogue) : JSON.stringify(describeModel(catalogue.find(id))));
    }
    throw new ApiError(404, `Not found: ${method} ${path}`);
  };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    if (url.pathname.startsWith("/_sim/")) {
      const bodyText = decode((await readBody(request)) ?? Buffer.alloc(0));
      const controls = { script, record, gates, catalogue, advance, reset };
      const answer = await answerDoor(request.method ?? "GET", url, bodyText, controls);
      response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
      return;
    }
    const slot = record.add({
      method: request.method ?? "GET",
      path: url.pathname,
      headers: request.headers,
      timeMs: nowMs(),
    });
    const gone = Promise.withResolvers<void>();
    response.on("close", () => {
      gone.resolve();
      slot.endedMs = nowMs();
      if (slot.outcome === "open") slot.outcome = response.writableFinished ? "answered" : "aborted";
    });
    const line: Line = {
      api: url.pathname === CHAT ? "chat" : "messages",
      response,
      requestId: `req_sim_${String(slot.index + 1).padStart(6, "0")}`,
      slot,
      gates,
      gone: gone.promise,
    };
    try {
      await route(line, request, url.pathname);
    } catch (error) {
      if (!request.complete) await readBody(request);
      const known = error instanceof ApiError ? error : new ApiError(500, `the simulator failed: ${String(error)}`);
      if (response.headersSent) response.destroy();
      else sendError(line, known);
    }
  };

  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(options.port ?? 0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    requests: record.list,
    script: script.add,
    enqueue: (entry) => script.add([entry]),
    pending: script.pending,
    release: gates.open,
    reached: gates.reached,
    setModels: catalogue.override,
    reset,
    close: () => {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      gates.reset();
      return closed.promise;
    },
  };
};
