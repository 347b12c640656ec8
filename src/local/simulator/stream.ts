/** An answer as the API sends it: one JSON message, or the sequence of server-sent events. */
import type { Answer, AnswerBlock } from "./reply.ts";
import { blockJson } from "./reply.ts";

/** Code points of a piece; long texts get longer pieces, so that a block has at most this many. */
const PIECE_LENGTH = 24;
const MAX_PIECES = 400;

const usageOf = (answer: Answer, outputTokens: number): Readonly<Record<string, unknown>> => ({
  input_tokens: answer.cache.inputTokens,
  cache_creation_input_tokens: answer.cache.write5mTokens + answer.cache.write1hTokens,
  cache_read_input_tokens: answer.cache.readTokens,
  cache_creation: {
    ephemeral_5m_input_tokens: answer.cache.write5mTokens,
    ephemeral_1h_input_tokens: answer.cache.write1hTokens,
  },
  output_tokens: outputTokens,
  output_tokens_details: { thinking_tokens: answer.thinkingTokens },
  server_tool_use: null,
  service_tier: "standard",
  inference_geo: null,
  speed: null,
  ...answer.usage,
});

const stopDetails = (answer: Answer) =>
  answer.stopReason === "refusal"
    ? { type: "refusal", category: "general_harms", explanation: answer.explanation ?? null }
    : null;

/** What a message says besides its content. */
const envelope = (answer: Answer, stopped: boolean) => ({
  id: answer.id,
  type: "message",
  role: "assistant",
  model: answer.model,
  container: null,
  diagnostics: null,
  stop_reason: stopped ? answer.stopReason : null,
  stop_sequence: null,
  stop_details: stopped ? stopDetails(answer) : null,
  ...(answer.droppedPaths.length === 0
    ? {}
    : {
        input_transformations: answer.droppedPaths.map((path) => ({
          type: "thinking_dropped",
          path,
          reason: "prefix_binding_mismatch",
        })),
      }),
});

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** The message as one JSON text. A tool call whose input was cut off is left out, since it could not be written. */
export const messageJson = (answer: Answer): string => {
  const blocks = answer.blocks.map(blockJson).filter(isJson);
  const head = JSON.stringify({ ...envelope(answer, true), usage: usageOf(answer, answer.outputTokens) });
  return `${head.slice(0, -1)},"content":[${blocks.join(",")}]}`;
};

/** One event. `piece`: it carries a part of a block, the unit that faults and gates count in. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
  readonly piece: boolean;
}

const event = (name: string, data: object): StreamEvent => ({
  name,
  data: JSON.stringify({ type: name, ...data }),
  piece: name === "content_block_delta",
});

/** Cuts a text into pieces between code points. */
export const pieces = (text: string): readonly string[] => {
  const points = [...text];
  const size = Math.max(PIECE_LENGTH, Math.ceil(points.length / MAX_PIECES));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, at) =>
    points.slice(at * size, (at + 1) * size).join(""),
  );
};

const startOf = (block: AnswerBlock): object => {
  switch (block.kind) {
    case "text":
      return { type: "text", text: "", citations: null };
    case "thinking":
      return { type: "thinking", thinking: "", signature: "" };
    case "call":
      return { type: block.type, id: block.id, name: block.name, input: {}, caller: { type: "direct" } };
    case "whole":
      return JSON.parse(block.text) as object;
    default: {
      const never: never = block;
      return never;
    }
  }
};

const deltasOf = (block: AnswerBlock): readonly object[] => {
  switch (block.kind) {
    case "text":
      return pieces(block.text).map((text) => ({ type: "text_delta", text }));
    case "thinking":
      return [
        ...pieces(block.text).map((thinking) => ({ type: "thinking_delta", thinking })),
        { type: "signature_delta", signature: block.signature },
      ];
    case "call":
      return ["", ...pieces(block.inputText)].map((partial_json) => ({ type: "input_json_delta", partial_json }));
    case "whole":
      return [];
    default: {
      const never: never = block;
      return never;
    }
  }
};

/** The events of an answer, in order. */
export const events = (answer: Answer): readonly StreamEvent[] => [
  event("message_start", { message: { ...envelope(answer, false), content: [], usage: usageOf(answer, 1) } }),
  event("ping", {}),
  ...answer.blocks.flatMap((block, index) => [
    event("content_block_start", { index, content_block: startOf(block) }),
    ...deltasOf(block).map((delta) => event("content_block_delta", { index, delta })),
    event("content_block_stop", { index }),
  ]),
  event("message_delta", {
    delta: { stop_reason: answer.stopReason, stop_sequence: null, stop_details: stopDetails(answer), container: null },
    usage: usageOf(answer, answer.outputTokens),
  }),
  event("message_stop", {}),
];

/** An event as it goes over the wire. */
export const writeEvent = (one: Pick<StreamEvent, "name" | "data">): string =>
  `event: ${one.name}\ndata: ${one.data}\n\n`;
