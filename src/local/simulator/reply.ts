/** From the blocks that a script or the agent wants to say to the finished answer: ids, signatures, limits, usage. */

import { repairSurrogates } from "../../protocol/json-text.ts";
import type { CacheUsage } from "./cache.ts";
import { scan } from "./json.ts";
import { digestOf, segment } from "./prefix.ts";
import type { SimRequest } from "./request.ts";
import type { ScriptBlock, ScriptReply } from "./script.ts";
import { sign } from "./thinking.ts";
import { countText, cutToTokens } from "./tokens.ts";

export type AnswerBlock =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "thinking"; readonly text: string; readonly signature: string }
  | {
      readonly kind: "call";
      readonly type: "tool_use" | "server_tool_use";
      readonly id: string;
      readonly name: string;
      /** JSON text, byte for byte as it is streamed. */
      readonly inputText: string;
    }
  | { readonly kind: "whole"; readonly text: string };

export interface Answer {
  readonly id: string;
  readonly model: string;
  readonly blocks: readonly AnswerBlock[];
  readonly stopReason: string;
  readonly explanation: string | undefined;
  readonly outputTokens: number;
  readonly thinkingTokens: number;
  readonly cache: CacheUsage;
  readonly usage: Readonly<Record<string, unknown>>;
  readonly droppedPaths: readonly string[];
}

const DIRECT = '"caller":{"type":"direct"}';

/** A finished block's JSON text. */
export const blockJson = (block: AnswerBlock): string => {
  switch (block.kind) {
    case "text":
      return `{"type":"text","text":${JSON.stringify(block.text)},"citations":null}`;
    case "thinking":
      return JSON.stringify({ type: "thinking", thinking: block.text, signature: block.signature });
    case "call":
      return `{"type":"${block.type}","id":${JSON.stringify(block.id)},"name":${JSON.stringify(block.name)},"input":${block.inputText || "{}"},${DIRECT}}`;
    case "whole":
      return block.text;
    default: {
      const never: never = block;
      return never;
    }
  }
};

/** Ids come from the place in the conversation, so that they differ within it even after a restart. */
const idFor = (prefix: string, link: string, index: number): string =>
  `${prefix}_sim${digestOf(link, String(index)).slice(0, 21)}`;

/** What can be cut: the text that is streamed in pieces. */
const streamedText = (block: ScriptBlock): string => {
  if (block.type === "text" && "text" in block) return String(block.text);
  if (block.type === "thinking" && "thinking" in block) return String(block.thinking);
  if (isCall(block)) return inputTextOf(block);
  return JSON.stringify(block);
};

type CallBlock = Extract<ScriptBlock, { readonly name: string; readonly input_json?: string | undefined }>;
const isCall = (block: ScriptBlock): block is CallBlock =>
  block.type === "tool_use" || block.type === "server_tool_use";
const inputTextOf = (block: CallBlock): string => block.input_json ?? JSON.stringify(block.input ?? {});

const cutBlock = (block: ScriptBlock, tokens: number): ScriptBlock => {
  const text = cutToTokens(streamedText(block), tokens);
  if (isCall(block)) return { ...block, input_json: text };
  if (block.type === "text") return { type: "text", text };
  if (block.type === "thinking") return { type: "thinking", thinking: text };
  return block;
};

/** What a tool of the provider found is no output of the model. */
const isFound = ({ type }: ScriptBlock): boolean => type.endsWith("_tool_result");

/** Cuts the blocks to a number of the model's tokens. */
const limit = (blocks: readonly ScriptBlock[], most: number, factor: number) => {
  const kept: ScriptBlock[] = [];
  let used = 0;
  let thinkingTokens = 0;
  for (const block of blocks) {
    const whole = isFound(block) ? 0 : Math.ceil(countText(streamedText(block)) * factor);
    const fits = used + whole <= most;
    const tokens = fits ? whole : most - used;
    kept.push(fits ? block : cutBlock(block, Math.floor(tokens / factor)));
    used += tokens;
    if (block.type === "thinking") thinkingTokens += tokens;
    if (!fits) return { blocks: kept, tokens: used, thinkingTokens, cut: true };
  }
  return { blocks: kept, tokens: used, thinkingTokens, cut: false };
};

/** Gives the blocks their ids and signatures, in order: a later signature covers the blocks before it. */
const finish = (blocks: readonly ScriptBlock[], request: SimRequest): readonly AnswerBlock[] => {
  let link = request.promptLink;
  return blocks.map((block, index) => {
    const made = finishBlock(block, index, link, request);
    const whole = made.kind === "call" ? { ...made, inputText: completed(made.inputText) } : made;
    const place = { part: "messages", path: "", role: "assistant", opensMessage: false } as const;
    link = digestOf(link, segment(place, {}, scan(repairSurrogates(blockJson(whole)))).digest);
    return made;
  });
};

/** A cut input is no JSON; what stands for it does not matter, since it cannot come back. */
const completed = (inputText: string): string => {
  try {
    JSON.parse(inputText);
    return inputText;
  } catch {
    return "{}";
  }
};

const finishBlock = (block: ScriptBlock, index: number, link: string, request: SimRequest): AnswerBlock => {
  if (isCall(block)) {
    const prefix = block.type === "tool_use" ? "toolu" : "srvtoolu";
    const id = block.id ?? idFor(prefix, request.promptLink, index);
    return { kind: "call", type: block.type, id, name: block.name, inputText: inputTextOf(block) };
  }
  if (block.type === "text") return { kind: "text", text: streamedText(block) };
  if (block.type === "thinking") {
    const text = request.omitsThinking ? "" : streamedText(block);
    const given = "signature" in block ? block.signature : undefined;
    return {
      kind: "thinking",
      text,
      signature: typeof given === "string" ? given : sign("thinking", text, link, request.binding),
    };
  }
  if (block.type === "redacted_thinking") {
    const given = "data" in block ? block.data : undefined;
    const data = typeof given === "string" ? given : sign("redacted_thinking", "", link, request.binding);
    return { kind: "whole", text: JSON.stringify({ type: "redacted_thinking", data }) };
  }
  return { kind: "whole", text: JSON.stringify(block) };
};

export interface AnswerLimits {
  /** Tokens; where it is reached the answer stops with `max_tokens`. */
  readonly truncateAt?: number;
  readonly explanation?: string;
}

/**
 * Finishes an answer. It is cut at `max_tokens`, or where the window is full.
 * @param serial tells answers to the same prompt apart
 */
export const makeAnswer = (
  request: SimRequest,
  reply: ScriptReply,
  cache: CacheUsage,
  serial: number,
  limits: AnswerLimits,
): Answer => {
  const wanted: readonly ScriptBlock[] =
    typeof reply.content === "string" ? [{ type: "text", text: reply.content }] : reply.content;
  const room = request.model.maxInputTokens - request.promptTokens;
  const most = Math.min(request.maxTokens, room, limits.truncateAt ?? request.maxTokens);
  const limited = limit(wanted, most, request.model.tokenFactor);
  const calls = wanted.some((block) => block.type === "tool_use");
  const natural = reply.stop_reason ?? (calls ? "tool_use" : "end_turn");
  const full = room <= most ? "model_context_window_exceeded" : "max_tokens";
  return {
    id: idFor("msg", request.promptLink, serial),
    model: request.model.id,
    blocks: finish(limited.blocks, request),
    stopReason: limited.cut || limits.truncateAt !== undefined ? full : natural,
    explanation: limits.explanation,
    outputTokens: Math.max(1, limited.tokens),
    thinkingTokens: limited.thinkingTokens,
    cache,
    usage: reply.usage ?? {},
    droppedPaths: request.droppedPaths,
  };
};
