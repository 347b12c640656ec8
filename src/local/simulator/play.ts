/** Sends an answer, with the faults and pauses that its script entry asks for. */
import type { ServerResponse } from "node:http";
import { writeChunk } from "./chat-stream.ts";
import { ApiError, chatErrorBody, errorBody, errorType } from "./errors.ts";
import type { Gates } from "./gates.ts";
import type { RecordSlot } from "./record.ts";
import type { Fault, ScriptEntry, ScriptReply } from "./script.ts";
import { type StreamEvent, writeEvent } from "./stream.ts";

/** What an overflow says, where the script says so. */
export interface StatedOverflow {
  readonly tokens?: number | undefined;
  readonly limit?: number | undefined;
}

/** An answer that is ready to be sent either way. */
export interface Outgoing {
  readonly events: () => readonly StreamEvent[];
  readonly json: () => string;
}

export interface Line {
  /** Which API the request came to. */
  readonly api: "messages" | "chat";
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly slot: RecordSlot;
  readonly gates: Gates;
  /** Resolves when the client is gone or the simulator closes. */
  readonly gone: Promise<void>;
}

const pause = (ms: number, gone: Promise<void>): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  return Promise.race([promise, gone]).finally(() => clearTimeout(timer));
};

const head = (line: Line, status: number, type: string, more: Readonly<Record<string, string>> = {}): void => {
  line.slot.status = status;
  line.response.writeHead(status, { "content-type": type, "request-id": line.requestId, ...more });
};

export const sendJson = (
  line: Line,
  status: number,
  body: string,
  more: Readonly<Record<string, string>> = {},
): void => {
  head(line, status, "application/json", more);
  line.response.end(body);
};

export const sendError = (line: Line, error: ApiError, retryAfter?: number): void => {
  line.slot.error = error.message;
  sendJson(
    line,
    error.status,
    JSON.stringify(line.api === "chat" ? chatErrorBody(error) : errorBody(error.type, error.message, line.requestId)),
    retryAfter === undefined ? {} : { "retry-after": String(retryAfter) },
  );
};

const MESSAGES: Readonly<Record<number, string>> = {
  401: "invalid x-api-key",
  429: "This request would exceed your organization's rate limit.",
  529: "Overloaded",
};

const gateOf = (hold: ScriptEntry["hold"], at: "start" | "middle"): string | undefined => {
  if (hold === undefined) return undefined;
  const gate = typeof hold === "string" ? ({ name: hold, at: "middle" } as const) : hold;
  return gate.at === at ? gate.name : undefined;
};

const wait = async (line: Line, gate: string | undefined): Promise<void> => {
  if (gate !== undefined) await Promise.race([line.gates.pass(gate), line.gone]);
};

/**
 * What happens before an answer is made: the delay, the gate at the start, and the faults that replace the answer.
 * @returns whether the request is done with
 */
export const playBefore = async (
  line: Line,
  entry: ScriptEntry | undefined,
  overflow: (stated: StatedOverflow) => ApiError,
): Promise<boolean> => {
  if (entry?.delay_ms !== undefined) await pause(entry.delay_ms, line.gone);
  await wait(line, gateOf(entry?.hold, "start"));
  const fault = entry?.fault;
  if (fault?.kind === "status") {
    const message = fault.message ?? MESSAGES[fault.status] ?? `simulated error ${fault.status}`;
    sendError(line, new ApiError(fault.status, message, fault.type ?? errorType(fault.status)), fault.retry_after);
    return true;
  }
  if (fault?.kind === "overflow") {
    sendError(line, overflow(fault));
    return true;
  }
  if (fault?.kind === "silence" && fault.after_pieces === undefined) {
    await line.gone;
    return true;
  }
  return line.response.destroyed;
};

/** The reply that a fault stands for, where the script gives none. */
export const faultReply = (fault: Fault | undefined): ScriptReply | undefined => {
  if (fault?.kind === "refusal") return { content: [], stop_reason: "refusal" };
  if (fault?.kind === "pause_turn") {
    return {
      content: [
        { type: "text", text: "I search the web." },
        { type: "server_tool_use", name: "web_search", input: { query: "hango" } },
      ],
      stop_reason: "pause_turn",
    };
  }
  return undefined;
};

const cut = (line: Line): void => {
  line.slot.outcome = "cut";
  line.response.destroy();
};

/** Does the fault of this moment. @returns whether the response is over */
const playFault = async (line: Line, fault: Fault | undefined): Promise<boolean> => {
  switch (fault?.kind) {
    case "error_event": {
      const type = fault.type ?? "overloaded_error";
      const message = fault.message ?? "Overloaded";
      line.response.end(
        line.api === "chat"
          ? writeChunk({ data: JSON.stringify(chatErrorBody(new ApiError(503, message, type))) })
          : writeEvent({ name: "error", data: JSON.stringify(errorBody(type, message, line.requestId)) }),
      );
      return true;
    }
    case "cut":
      if (fault.clean === true) line.response.end();
      else {
        // What was written must have left before the socket dies, or the client would see nothing of it.
        await new Promise<void>((resolve) => line.response.write(": cut\n\n", () => resolve()));
        cut(line);
      }
      return true;
    case "silence":
      await line.gone;
      return true;
    case "malformed_event":
      line.response.end(
        line.api === "chat"
          ? writeChunk({ data: '{"object":"chat.completion.chunk","choices":[{"delta"' })
          : 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type"\n\n',
      );
      return true;
    default:
      return false;
  }
};

const MID_STREAM: ReadonlySet<string> = new Set(["error_event", "cut", "silence", "malformed_event"]);

const playStream = async (line: Line, answer: Outgoing, entry: ScriptEntry | undefined): Promise<void> => {
  const fault = entry?.fault;
  const midway = fault !== undefined && MID_STREAM.has(fault.kind) ? fault : undefined;
  const faultAt = midway !== undefined && "after_pieces" in midway ? (midway.after_pieces ?? 1) : 1;
  let gate = gateOf(entry?.hold, "middle");
  let sent = 0;
  head(line, 200, "text/event-stream; charset=utf-8", { "cache-control": "no-cache" });
  for (const event of answer.events()) {
    if (line.response.destroyed) return;
    const ends = event.name === "message_delta";
    if (gate !== undefined && (sent > 0 || ends)) {
      await wait(line, gate);
      gate = undefined;
    }
    if (midway !== undefined && ((event.piece && sent >= faultAt) || ends) && (await playFault(line, midway))) return;
    if (event.piece && fault?.kind === "slow") await pause(fault.ms_per_piece, line.gone);
    line.response.write(line.api === "chat" ? writeChunk(event) : writeEvent(event));
    if (event.piece) sent += 1;
  }
  line.response.end();
};

const playWhole = async (line: Line, answer: Outgoing, entry: ScriptEntry | undefined): Promise<void> => {
  await wait(line, gateOf(entry?.hold, "middle"));
  const body = answer.json();
  const fault = entry?.fault;
  switch (fault?.kind) {
    case "error_event":
      return sendError(line, new ApiError(529, fault.message ?? "Overloaded", fault.type ?? "overloaded_error"));
    case "malformed_event":
      return sendJson(line, 200, body.slice(0, -1));
    case "silence":
      return line.gone;
    case "cut":
      head(line, 200, "application/json", { "content-length": String(Buffer.byteLength(body)) });
      await new Promise<void>((resolve) => line.response.write(body.slice(0, body.length / 2), () => resolve()));
      return cut(line);
    default:
      return sendJson(line, 200, body);
  }
};

/** Sends an answer, streamed or whole. */
export const play = (line: Line, answer: Outgoing, entry: ScriptEntry | undefined, streamed: boolean): Promise<void> =>
  streamed ? playStream(line, answer, entry) : playWhole(line, answer, entry);
