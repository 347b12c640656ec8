/** An answer as chat completions send it: one JSON object, or a sequence of chunks. */
import { digestOf } from "./prefix.ts";
import type { Answer, AnswerBlock } from "./reply.ts";
import { pieces, type StreamEvent } from "./stream.ts";

const FINISH_REASONS: ReadonlyMap<string, string> = new Map([
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["tool_use", "tool_calls"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["refusal", "content_filter"],
]);

export interface ChatAnswerOptions {
  /** Tokens of the prompt that the prefix cache had. */
  readonly cachedTokens: number;
  readonly promptTokens: number;
  readonly includesUsage: boolean;
  /** The template takes ids of nine letters and digits. */
  readonly strictTemplate: boolean;
}

type Call = Extract<AnswerBlock, { readonly kind: "call" }>;

/** An id that the script gives stays, also an empty one; others look as the server's do. */
const callId = (call: Call, { strictTemplate }: ChatAnswerOptions): string => {
  if (!call.id.startsWith("toolu_sim")) return call.id;
  const digest = digestOf("call", call.id);
  return strictTemplate ? digest.slice(0, 9) : `call_${digest.slice(0, 24)}`;
};

/** A script says `usage: {"none": true}` for a server that counts nothing; other members replace what is counted. */
const usageOf = (answer: Answer, { promptTokens, cachedTokens }: ChatAnswerOptions) => {
  const { none, ...given } = answer.usage;
  if (none === true) return null;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: answer.outputTokens,
    total_tokens: promptTokens + answer.outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: answer.thinkingTokens },
    ...given,
  };
};

const envelope = (answer: Answer, object: string) => ({
  id: answer.id.replace(/^msg_/, "chatcmpl-"),
  object,
  created: 1_767_225_600,
  model: answer.model,
});

const finishReason = (answer: Answer): string => FINISH_REASONS.get(answer.stopReason) ?? answer.stopReason;

const isCall = (block: AnswerBlock): block is Call => block.kind === "call";
const textOf = (answer: Answer, kind: "text" | "thinking"): string =>
  answer.blocks.flatMap((block) => (block.kind === kind ? [block.text] : [])).join("");

/** The answer as one JSON text. */
export const chatJson = (answer: Answer, options: ChatAnswerOptions): string => {
  const calls = answer.blocks.filter(isCall).map((call) => ({
    id: callId(call, options),
    type: "function",
    function: { name: call.name, arguments: call.inputText },
  }));
  const reasoning = textOf(answer, "thinking");
  const text = textOf(answer, "text");
  const message = {
    role: "assistant",
    content: text === "" ? null : text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  const usage = usageOf(answer, options);
  return JSON.stringify({
    ...envelope(answer, "chat.completion"),
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason(answer) }],
    ...(usage === null ? {} : { usage }),
  });
};

const deltasOf = (block: AnswerBlock, index: number, options: ChatAnswerOptions): readonly object[] => {
  switch (block.kind) {
    case "text":
      return pieces(block.text).map((content) => ({ content }));
    case "thinking":
      return pieces(block.text).map((reasoning_content) => ({ reasoning_content }));
    case "call":
      return [
        {
          tool_calls: [
            { index, id: callId(block, options), type: "function", function: { name: block.name, arguments: "" } },
          ],
        },
        ...pieces(block.inputText).map((args) => ({ tool_calls: [{ index, function: { arguments: args } }] })),
      ];
    case "whole":
      return [];
    default: {
      const never: never = block;
      return never;
    }
  }
};

/** The chunks of an answer, in order; names are for the player alone, which sends data only. */
export const chatEvents = (answer: Answer, options: ChatAnswerOptions): readonly StreamEvent[] => {
  const chunk = (delta: object, finish: string | null, name = "chunk", piece = false): StreamEvent => ({
    name,
    piece,
    data: JSON.stringify({
      ...envelope(answer, "chat.completion.chunk"),
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
    }),
  });
  const calls = answer.blocks.filter(isCall);
  const usage = options.includesUsage ? usageOf(answer, options) : null;
  return [
    chunk({ role: "assistant", content: "" }, null),
    ...answer.blocks.flatMap((block) =>
      deltasOf(block, isCall(block) ? calls.indexOf(block) : 0, options).map((delta) =>
        chunk(delta, null, "chunk", true),
      ),
    ),
    chunk({}, finishReason(answer), "message_delta"),
    ...(usage === null
      ? []
      : [
          {
            name: "usage",
            piece: false,
            data: JSON.stringify({ ...envelope(answer, "chat.completion.chunk"), choices: [], usage }),
          },
        ]),
    { name: "done", piece: false, data: "[DONE]" },
  ];
};

/** A chunk as it goes over the wire. */
export const writeChunk = ({ data }: Pick<StreamEvent, "data">): string => `data: ${data}\n\n`;
