/** hango's API as the demo uses it: over HTTP, as any client would. */
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { arrayElements } from "../../protocol/json-text.ts";
import { type Message, memberText, readBlocks } from "./recording.ts";

/** The API answered with an error, or broke off. */
export class DemoApiError extends Error {
  override readonly name = "DemoApiError";
}

const usage = z.object({
  input_tokens: z.number(),
  output_tokens: z.number(),
  cache_read_input_tokens: z.number(),
  cache_creation_input_tokens: z.number(),
});

const run = z.object({
  id: z.string(),
  status: z.string(),
  steps: z.number(),
  usage,
  db_round_trips: z.number().nullable(),
  overhead_ms: z.number().nullable(),
});

export type Run = z.infer<typeof run>;

const ended = z.object({
  steps: z.number(),
  usage,
  error: z.object({ code: z.string(), message: z.string() }).nullish(),
});

export type TurnEnd = z.infer<typeof ended>;

const page = z.object({ data: z.array(z.unknown()), next_page: z.string().nullable() });

const context = z.object({ revision: z.number(), window: z.object({ trigger_tokens: z.number() }) });

export interface ContextState {
  /** Changes of what is sent so far. */
  readonly revision: number;
  /** Where the session is compacted, in tokens. */
  readonly triggerTokens: number;
}

export interface ClientOptions {
  readonly url: string;
  readonly apiKey: string;
  readonly signal: AbortSignal;
}

export interface Client {
  /** @returns the session's id */
  readonly createSession: (body: object) => Promise<string>;
  /**
   * Runs a turn, streamed, and reads its events to the end.
   * @param onAnswer told of each answer of the model
   * @param onEvent told of every event, with its data as JSON text
   * @throws DemoApiError when the turn is refused or fails
   */
  readonly runTurn: (
    sessionId: string,
    body: object,
    onAnswer: () => void,
    onEvent?: (type: string, data: string) => void,
  ) => Promise<TurnEnd>;
  /** All runs of a session, oldest first. */
  readonly runs: (sessionId: string) => Promise<readonly Run[]>;
  /** The whole log, its contents in the bytes in which they are stored. */
  readonly messages: (sessionId: string) => Promise<readonly Message[]>;
  /** Where the session's context stands. */
  readonly context: (sessionId: string) => Promise<ContextState>;
  /** A file's text; undefined where there is none. */
  readonly file: (sessionId: string, path: string) => Promise<string | undefined>;
}

interface Event {
  readonly type: string;
  readonly data: string;
}

/** The events of a stream; comments are passed over. */
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  let buffer = "";
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    buffer += decoder.decode(chunk, { stream: true });
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const lines = buffer.slice(0, end).split("\n");
      buffer = buffer.slice(end + 2);
      const field = (name: string): string | undefined =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const type = field("event");
      if (type !== undefined) yield { type, data: field("data") ?? "{}" };
    }
  }
}

const failure = async (method: string, path: string, response: Response): Promise<DemoApiError> =>
  new DemoApiError(`${method} ${path} answered ${response.status}: ${(await response.text()).slice(0, 2_000)}`);

/** A client of one platform. Waits where the API says that it is asked too often. */
export const createClient = ({ url, apiKey, signal }: ClientOptions): Client => {
  const send = async (method: string, path: string, body?: object): Promise<Response> => {
    const init = {
      method,
      signal,
      headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    for (;;) {
      const response = await fetch(`${url}${path}`, init);
      if (response.status !== 429) return response;
      await response.body?.cancel();
      await pause(1_000 * Number(response.headers.get("retry-after") ?? 1), undefined, { signal });
    }
  };

  const text = async (method: string, path: string, body?: object): Promise<string> => {
    const response = await send(method, path, body);
    if (!response.ok) throw await failure(method, path, response);
    return response.text();
  };

  /** The texts of all pages of a list, oldest item first. */
  const pages = async (path: string): Promise<readonly string[]> => {
    const read: string[] = [];
    for (let next: string | null = ""; next !== null; ) {
      const cursor: string = next === "" ? "" : `&page=${encodeURIComponent(next)}`;
      const one = await text("GET", `${path}${path.includes("?") ? "&" : "?"}limit=100&order=asc${cursor}`);
      read.push(one);
      next = page.parse(JSON.parse(one)).next_page;
    }
    return read;
  };

  return {
    createSession: async (body) =>
      z.object({ id: z.string() }).parse(JSON.parse(await text("POST", "/v1/sessions", body))).id,
    runTurn: async (sessionId, body, onAnswer, onEvent) => {
      const path = `/v1/sessions/${sessionId}/turns`;
      const response = await send("POST", path, { ...body, stream: true });
      if (!response.ok || response.body === null) throw await failure("POST", path, response);
      for await (const { type, data } of eventsOf(response.body)) {
        onEvent?.(type, data);
        if (type === "message.completed" && data.includes('"stop_reason"')) onAnswer();
        if (type === "run.completed") return ended.parse(JSON.parse(data));
        if (type === "run.failed") {
          const { error } = z.object({ error: ended.shape.error }).parse(JSON.parse(data));
          throw new DemoApiError(`the run failed: ${error?.code ?? "unknown"}: ${error?.message ?? "no message"}`);
        }
      }
      throw new DemoApiError("the event stream ended before the run did");
    },
    runs: async (sessionId) => {
      const read = await pages(`/v1/sessions/${sessionId}/runs`);
      return read.flatMap((one) => page.parse(JSON.parse(one)).data.map((item) => run.parse(item)));
    },
    messages: async (sessionId) => {
      const read = await pages(`/v1/sessions/${sessionId}/messages?include_media=true`);
      return read.flatMap((one) => {
        const data = memberText(one, "data") ?? "[]";
        return arrayElements(data).map(({ start, end }): Message => {
          const item = data.slice(start, end);
          const { role } = z.object({ role: z.enum(["user", "assistant"]) }).parse(JSON.parse(item));
          return { role, blocks: readBlocks(memberText(item, "content") ?? "", "a message of the log") };
        });
      });
    },
    context: async (sessionId) => {
      const { revision, window } = context.parse(JSON.parse(await text("GET", `/v1/sessions/${sessionId}/context`)));
      return { revision, triggerTokens: window.trigger_tokens };
    },
    file: async (sessionId, path) => {
      const response = await send("GET", `/v1/sessions/${sessionId}/files${path}`);
      if (response.status === 404) return undefined;
      if (!response.ok) throw await failure("GET", path, response);
      return response.text();
    },
  };
};
