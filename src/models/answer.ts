/**
 * Puts an answer together from its stream events. The SDK's own snapshot would hold tool input as objects; here it stays
 * the text that was streamed (rule V9).
 */

import type { RawMessageStreamEvent } from "@anthropic-ai/sdk/resources/messages";
import { isRecord } from "../protocol/is-record.ts";
import type { ModelResponse, StopReason, ToolCall, Usage } from "../protocol/messages.ts";
import { ContextOverflowError, ModelError } from "./errors.ts";
import type { StreamDelta } from "./provider.ts";
import { cleanJson as clean, readToolInput, type ToolInput } from "./tool-input.ts";

/** A block being written. */
interface BlockDraft {
  /** The block as it was opened, `type` included. */
  readonly opened: Readonly<Record<string, unknown>>;
  /** Text members that deltas have added to, by name: `text`, `thinking`, `signature`, and whatever a new block brings. */
  readonly texts: Map<string, string>;
  readonly citations: unknown[];
  /** The streamed pieces of `input`, joined. */
  inputText: string;
}

/** An answer being written; `addEvent` changes it. */
export interface AnswerDraft {
  id: string;
  model: string;
  readonly blocks: Map<number, BlockDraft>;
  stopReason: string | null;
  usage: Usage;
  /** `message_stop` has come. */
  stopped: boolean;
  /** An event did not fit what came before it. */
  malformed: boolean;
}

export const newAnswer = (): AnswerDraft => ({
  id: "",
  model: "",
  blocks: new Map(),
  stopReason: null,
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
  stopped: false,
  malformed: false,
});

/** Counters are totals: present ones overwrite, absent or null ones stand. */
const updateUsage = (usage: Usage, news: unknown): Usage => {
  if (!isRecord(news)) return usage;
  const read = (name: string, before: number): number => {
    const value = news[name];
    return typeof value === "number" && Number.isFinite(value) ? value : before;
  };
  return {
    inputTokens: read("input_tokens", usage.inputTokens),
    outputTokens: read("output_tokens", usage.outputTokens),
    cacheReadTokens: read("cache_read_input_tokens", usage.cacheReadTokens),
    cacheWriteTokens: read("cache_creation_input_tokens", usage.cacheWriteTokens),
  };
};

const PROGRESS: StreamDelta = { kind: "progress" };

/** Adds text to a member of a block. Answers where the piece stands, for text and thinking. */
const addText = (block: BlockDraft, index: number, member: string, text: string): StreamDelta => {
  const opened = block.opened[member];
  const before = block.texts.get(member) ?? (typeof opened === "string" ? opened : "");
  block.texts.set(member, before + text);
  return member === "text" || member === "thinking" ? { kind: member, index, offset: before.length, text } : PROGRESS;
};

const addDelta = (block: BlockDraft, index: number, delta: Readonly<Record<string, unknown>>): StreamDelta => {
  switch (delta.type) {
    case "input_json_delta":
      if (typeof delta.partial_json === "string") block.inputText += delta.partial_json;
      return PROGRESS;
    case "citations_delta":
      block.citations.push(delta.citation);
      return PROGRESS;
    case "signature_delta":
      // Sent whole; a second one replaces the first, as the SDK has it.
      if (typeof delta.signature === "string") block.texts.set("signature", delta.signature);
      return PROGRESS;
    default: {
      // text_delta, thinking_delta, and those of blocks that do not exist yet: each text member continues its namesake.
      let last: StreamDelta = PROGRESS;
      for (const [member, value] of Object.entries(delta)) {
        if (member !== "type" && typeof value === "string") last = addText(block, index, member, value);
      }
      return last;
    }
  }
};

/**
 * Takes in one event.
 * @returns what to tell a listener; undefined for events that bring nothing new
 */
export const addEvent = (draft: AnswerDraft, event: RawMessageStreamEvent): StreamDelta | undefined => {
  switch (event.type) {
    case "message_start":
      draft.id = event.message.id;
      draft.model = event.message.model;
      draft.usage = updateUsage(draft.usage, event.message.usage);
      return PROGRESS;
    case "content_block_start": {
      const opened: unknown = event.content_block;
      if (!isRecord(opened) || draft.blocks.has(event.index)) {
        draft.malformed = true;
        return undefined;
      }
      draft.blocks.set(event.index, { opened, texts: new Map(), citations: [], inputText: "" });
      const text = opened.type === "text" ? opened.text : "";
      return typeof text === "string" && text !== "" ? { kind: "text", index: event.index, offset: 0, text } : PROGRESS;
    }
    case "content_block_delta": {
      const block = draft.blocks.get(event.index);
      const delta: unknown = event.delta;
      if (!block || !isRecord(delta)) {
        draft.malformed = true;
        return undefined;
      }
      return addDelta(block, event.index, delta);
    }
    case "message_delta":
      draft.stopReason = event.delta.stop_reason ?? draft.stopReason;
      draft.usage = updateUsage(draft.usage, event.usage);
      return PROGRESS;
    case "message_stop":
      draft.stopped = true;
      return undefined;
    case "content_block_stop":
      return undefined;
    default:
      // An event that did not exist when this was written.
      return undefined;
  }
};

/** Whether the answer has its end and the reason for it; without both it is no answer (platform.md). */
export const isWhole = (draft: AnswerDraft): boolean => draft.stopped && draft.stopReason !== null && !draft.malformed;

const toolInput = (block: BlockDraft): ToolInput => {
  const opened = block.opened.input;
  return readToolInput(block.inputText, JSON.stringify(isRecord(opened) ? opened : {}));
};

/** The block as JSON text, its members in the order in which they came; undefined for one that cannot be sent back. */
const blockText = (block: BlockDraft): string | undefined => {
  const members = new Map<string, string>();
  for (const [name, value] of Object.entries(block.opened)) {
    if (value !== undefined) members.set(name, clean(JSON.stringify(value)));
  }
  for (const [name, value] of block.texts) members.set(name, clean(JSON.stringify(value)));
  if (block.citations.length > 0) members.set("citations", clean(JSON.stringify(block.citations)));
  if (members.get("citations") === "null") members.delete("citations");
  if (members.has("input") || block.inputText !== "") members.set("input", toolInput(block).stored);

  const type = block.opened.type;
  const textual = (name: string): string => block.texts.get(name) ?? String(block.opened[name] ?? "");
  // The API rejects blank text on its way back, and thinking that was cut off before it was signed.
  if (type === "text" && textual("text").trim() === "") return undefined;
  if (type === "thinking" && textual("signature") === "") return undefined;
  return `{${[...members].map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`;
};

const toToolCall = (block: BlockDraft): ToolCall => {
  const { id, name } = block.opened;
  if (typeof id !== "string" || typeof name !== "string") {
    throw new ModelError({ kind: "stream_cut" }, { detail: "a tool call without id or name" });
  }
  const { raw, valid } = toolInput(block);
  return { id, name, inputText: raw, ...(valid ? {} : { invalid: true }) };
};

const STOP_REASONS: ReadonlySet<string> = new Set<StopReason>([
  "end_turn",
  "max_tokens",
  "stop_sequence",
  "tool_use",
  "pause_turn",
  "refusal",
  "model_context_window_exceeded",
  "compaction",
]);
const isStopReason = (reason: string): reason is StopReason => STOP_REASONS.has(reason);

/**
 * The finished answer.
 * @param requestId the provider's id of the request, for errors
 * @throws ModelError `stream_cut` when the end or the stop reason is missing, `server` for a stop reason that is not known
 * @throws ContextOverflowError for `model_context_window_exceeded`: what was written so far is no answer (context.md section 8)
 */
export const finishAnswer = (draft: AnswerDraft, requestId: string | undefined): ModelResponse => {
  const source = requestId === undefined ? {} : { requestId };
  const reason = draft.stopReason;
  if (!isWhole(draft) || reason === null) throw new ModelError({ kind: "stream_cut" }, source);
  if (!isStopReason(reason)) throw new ModelError({ kind: "server" }, { ...source, detail: `stop reason "${reason}"` });
  if (reason === "model_context_window_exceeded")
    throw new ContextOverflowError({}, source, { model: draft.model, usage: draft.usage });

  const blocks = [...draft.blocks.values()];
  const texts = blocks.flatMap((block) => {
    const text = block.opened.type === "text" ? (block.texts.get("text") ?? block.opened.text) : "";
    return typeof text === "string" && text.trim() !== "" ? [text.toWellFormed()] : [];
  });
  return {
    id: draft.id,
    model: draft.model,
    content: `[${blocks.flatMap((block) => blockText(block) ?? []).join(",")}]`,
    text: texts.join(""),
    calls: blocks.filter((block) => block.opened.type === "tool_use").map(toToolCall),
    stopReason: reason,
    usage: draft.usage,
  };
};
