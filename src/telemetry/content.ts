/**
 * Prompts, answers and what tools are called with, as attributes of spans: only where `HANGO_CAPTURE_CONTENT` is true. The names and the shape of
 * messages are those of OpenTelemetry's GenAI conventions. Secrets are taken out first (S6), before anything is cut, since half of one is not recognised.
 */
import { isRecord } from "../protocol/is-record.ts";
import type { ModelRequest, ModelResponse } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import { genai } from "./genai.ts";
import type { Attributes } from "./tracer.ts";

/** Longest text of one part, in characters: a span is looked at, and a whole file is in the session. */
const LONGEST_PART = 4_000;

/** Longest attribute, in characters; collectors refuse requests of some MB. */
const LONGEST_ATTRIBUTE = 64_000;

const short = (text: string): string => {
  const safe = redact(text).text;
  return safe.length > LONGEST_PART ? `${safe.slice(0, LONGEST_PART).toWellFormed()}...` : safe;
};

const asText = (value: unknown): string => short(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/** One block in the words of the conventions; of what has none there (media, the provider's own tools) its type alone. */
const partOf = (block: unknown): Readonly<Record<string, unknown>> => {
  if (!isRecord(block)) return { type: "unknown" };
  switch (block.type) {
    case "text":
      return { type: "text", content: asText(block.text) };
    case "thinking":
      return { type: "reasoning", content: asText(block.thinking) };
    case "tool_use":
      return { type: "tool_call", id: block.id, name: block.name, arguments: asText(block.input) };
    case "tool_result":
      return { type: "tool_call_response", id: block.tool_use_id, response: asText(withoutMedia(block.content)) };
    default:
      return { type: String(block.type) };
  }
};

/** A result's texts; media are named. */
const withoutMedia = (content: unknown): unknown => (Array.isArray(content) ? content.map(partOf) : content);

const partsOf = (content: string): readonly unknown[] => {
  const blocks: unknown = JSON.parse(content);
  return Array.isArray(blocks) ? blocks.map(partOf) : [partOf({ type: "text", text: blocks })];
};

/** As many of the newest as an attribute holds; how many were left out is said in their place. */
const newest = (messages: readonly object[]): string => {
  const kept: string[] = [];
  let size = 0;
  for (const message of messages.toReversed()) {
    const text = JSON.stringify(message);
    size += text.length + 1;
    if (size > LONGEST_ATTRIBUTE) break;
    kept.unshift(text);
  }
  const left = messages.length - kept.length;
  const note = { role: "system", parts: [{ type: "text", content: `(${left} earlier messages are left out)` }] };
  return `[${[...(left === 0 ? [] : [JSON.stringify(note)]), ...kept].join(",")}]`;
};

/** What may be told of content. Both answer nothing where content is not captured; neither throws. */
export interface Content {
  request(request: ModelRequest): Attributes;
  response(response: ModelResponse): Attributes;
  /** @param inputText the arguments as the model wrote them */
  toolCall(inputText: string): Attributes;
  toolResult(content: unknown): Attributes;
}

/** The default: no content in any span. */
export const noContent: Content = {
  request: () => ({}),
  response: () => ({}),
  toolCall: () => ({}),
  toolResult: () => ({}),
};

/** Emitting never throws: what cannot be read is left out. */
const quietly = (describe: () => Attributes): Attributes => {
  try {
    return describe();
  } catch {
    return {};
  }
};

/** With `HANGO_CAPTURE_CONTENT`. */
export const capturedContent: Content = {
  request: ({ system, messages }) =>
    quietly(() => ({
      [genai.systemInstructions]: newest(system.map(({ text }) => ({ type: "text", content: short(text) }))),
      [genai.inputMessages]: newest(messages.map(({ role, content }) => ({ role, parts: partsOf(content) }))),
    })),
  response: ({ content, stopReason }) =>
    quietly(() => ({
      [genai.outputMessages]: newest([{ role: "assistant", parts: partsOf(content), finish_reason: stopReason }]),
    })),
  toolCall: (inputText) => quietly(() => ({ [genai.toolArguments]: short(inputText) })),
  toolResult: (content) => quietly(() => ({ [genai.toolResult]: asText(withoutMedia(content)) })),
};
