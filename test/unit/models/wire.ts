/** A provider's end of the wire: an HTTP server that plays raw answers from a queue and records what it was sent. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type AnthropicSettings, anthropicProvider } from "../../../src/models/anthropic.ts";
import type { Timers } from "../../../src/models/call-watch.ts";
import { ModelError } from "../../../src/models/errors.ts";
import type { CallOptions, Provider } from "../../../src/models/provider.ts";
import type { ModelRequest } from "../../../src/protocol/messages.ts";

export interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

type Play = (response: ServerResponse) => void;

export interface Wire {
  readonly url: string;
  readonly requests: Recorded[];
  /** Queues the next answer. */
  play(answer: Play): void;
  /** Resolves when the client has left the newest connection that is still open. */
  readonly left: Promise<void>;
  close(): Promise<void>;
}

export const startWire = async (): Promise<Wire> => {
  const requests: Recorded[] = [];
  const queue: Play[] = [];
  const left = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    response.on("close", () => {
      if (!response.writableFinished) left.resolve();
    });
    request.on("end", () => {
      requests.push({
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString("utf8"),
      });
      const play =
        queue.shift() ?? json(500, { type: "error", error: { type: "api_error", message: "nothing queued" } });
      play(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    play: (answer) => queue.push(answer),
    left: left.promise,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
};

/** An answer that is no stream. */
export const json =
  (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Play =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", "request-id": "req_1", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };

export const failure = (status: number, type: string, message: string, headers = {}): Play =>
  json(status, { type: "error", error: { type, message } }, headers);

/** A streamed answer, whole. */
export const sse =
  (...events: readonly string[]): Play =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream", "request-id": "req_1" });
    response.end(events.join(""));
  };

/** A streamed answer that goes silent after these events, its connection open. */
export const silence =
  (...events: readonly string[]): Play =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream", "request-id": "req_1" });
    response.write(events.join(""));
  };

export const event = (type: string, data: string): string => `event: ${type}\ndata: ${data}\n\n`;

export const start = (usage = '{"input_tokens":10,"output_tokens":1}'): string =>
  event(
    "message_start",
    `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":${usage}}}`,
  );

/** One block: how it opens, and its deltas as JSON text. */
export const block = (index: number, opened: string, ...deltas: readonly string[]): string =>
  [
    event("content_block_start", `{"type":"content_block_start","index":${index},"content_block":${opened}}`),
    ...deltas.map((delta) =>
      event("content_block_delta", `{"type":"content_block_delta","index":${index},"delta":${delta}}`),
    ),
    event("content_block_stop", `{"type":"content_block_stop","index":${index}}`),
  ].join("");

export const text = (index: number, ...pieces: readonly string[]): string =>
  block(
    index,
    '{"type":"text","text":""}',
    ...pieces.map((piece) => `{"type":"text_delta","text":${JSON.stringify(piece)}}`),
  );

export const inputDelta = (piece: string): string =>
  `{"type":"input_json_delta","partial_json":${JSON.stringify(piece)}}`;

export const toolUse = (index: number, id: string, name: string, ...pieces: readonly string[]): string =>
  block(index, `{"type":"tool_use","id":"${id}","name":"${name}","input":{}}`, ...pieces.map(inputDelta));

export const thinking = (index: number, words: string, signature: string): string =>
  block(
    index,
    '{"type":"thinking","thinking":"","signature":""}',
    `{"type":"thinking_delta","thinking":${JSON.stringify(words)}}`,
    `{"type":"signature_delta","signature":${JSON.stringify(signature)}}`,
  );

export const end = (reason: string | null, usage = '{"output_tokens":7}'): string =>
  event(
    "message_delta",
    `{"type":"message_delta","delta":{"stop_reason":${JSON.stringify(reason)},"stop_sequence":null},"usage":${usage}}`,
  ) + stop;

export const stop = event("message_stop", '{"type":"message_stop"}');

/** A clock that only moves when told to. */
export interface FakeTimers extends Timers {
  advance(ms: number): void;
  /** Timers that are running. */
  pending(): number;
  /** When the next of them is due, ms since the epoch. */
  nextDueMs(): number;
}

export const fakeTimers = (startMs = 1_000_000): FakeTimers => {
  let nowMs = startMs;
  const tasks = new Map<symbol, { readonly atMs: number; readonly run: () => void }>();
  return {
    nowMs: () => nowMs,
    after: (delayMs, run) => {
      const key = Symbol("timer");
      tasks.set(key, { atMs: nowMs + delayMs, run });
      return () => tasks.delete(key);
    },
    advance: (ms) => {
      nowMs += ms;
      for (const [key, task] of [...tasks]) {
        if (task.atMs > nowMs || !tasks.delete(key)) continue;
        task.run();
      }
    },
    pending: () => tasks.size,
    nextDueMs: () => Math.min(...[...tasks.values()].map(({ atMs }) => atMs)),
  };
};

export const providerOn = (wire: Wire, timers: Timers, settings: Partial<AnthropicSettings> = {}): Provider =>
  anthropicProvider({
    apiKey: "sk-ant-test-key",
    baseURL: wire.url,
    fetch,
    timers,
    resolveMedia: () => Promise.reject(new Error("no media expected")),
    ...settings,
  });

export const request = (changes: Partial<ModelRequest> = {}): ModelRequest => ({
  model: "claude-sonnet-5-5",
  maxTokens: 1_000,
  system: [],
  tools: [],
  messages: [{ role: "user", content: '[{"type":"text","text":"Hi"}]', media: [] }],
  ...changes,
});

export const options = (timers: Timers, changes: Partial<CallOptions> = {}): CallOptions => ({
  signal: new AbortController().signal,
  deadlineMs: timers.nowMs() + 600_000,
  ...changes,
});

/** The model error that a promise fails with. */
export const failureOf = async (promise: Promise<unknown>): Promise<ModelError> => {
  const error: unknown = await promise.then(
    (value) => new Error(`did not fail: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (error instanceof ModelError) return error;
  throw error;
};
