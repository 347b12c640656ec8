/** The size of a whole request (E1, E2): everything that is sent, each kind of block at what it costs. */
import type { ModelRequest, SystemBlock, ToolDefinition, ViewMessage } from "../protocol/messages.ts";
import { pdfPages } from "../protocol/pdf-pages.ts";
import { estimateTokens } from "./estimate.ts";
import { imageTokens, PDF_PAGE_TOKENS } from "./media-cost.ts";

/** How texts are counted; injected, so that another tokenizer can take its place (E3). */
export interface Estimator {
  /** Tokens of a text, as the base tokenizer counts. Must not shrink when text is appended. */
  readonly text: (text: string) => number;
  /** Tokens that a model's tokenizer makes of one token of the base tokenizer. */
  readonly scale: (model: string) => number;
}

/** Models before 4.7 count by the older tokenizer, which is the base; names carry the version as `-4-5`, older ones as `-3-`. */
const OLDER_TOKENIZER = /^claude-(?:\w+-)?(?:[123](?:-|$)|4(?:-[0-6])?(?:-\d{8}|-latest|$))|^claude-(?:2|instant)/;

/** Models from 4.7 on: about 1.3 by the provider's word (messages-api.md), 1.2 in the recorded session that there is. */
const NEWER_TOKENIZER_SCALE = 1.25;

export const defaultEstimator: Estimator = {
  text: estimateTokens,
  scale: (model) => (model.startsWith("claude-") && !OLDER_TOKENIZER.test(model) ? NEWER_TOKENIZER_SCALE : 1),
};

/** Envelopes, in tokens: fitted with the weights of `estimateTokens` (token-weights.ts). */
const MESSAGE_TOKENS = 3;
const BLOCK_TOKENS = 1;
const TOOL_USE_TOKENS = 41;
const TOOL_ARGUMENT_TOKENS = 16;
const THINKING_TOKENS = 7;
/** Fitted to recorded requests of 8 to 1,100 tokens with exact counts. */
const REQUEST_TOKENS = 5;
const TOOL_TOKENS = 8;
/** What the provider adds to the system prompt as soon as there are tools: 280 to 540 in recorded requests, most near the upper end. */
const ANY_TOOL_TOKENS = 500;

/**
 * A thinking signature holds the text it signs, encrypted and in base64, plus about this many characters (measured on 160 blocks). What it
 * holds beyond the visible text is thinking that the block does not show.
 */
const SIGNATURE_CHARS = 232;
const SIGNATURE_CHARS_PER_CHAR = 4 / 3;

/** Signatures and encrypted blobs: characters on the wire per token (E2). */
const WIRE_CHARS_PER_TOKEN = 4;

/** Members whose strings are opaque to the model's text: they cost their size on the wire. */
const OPAQUE_MEMBERS: ReadonlySet<string> = new Set([
  "signature",
  "encrypted_content",
  "encrypted_index",
  "encrypted_stdout",
]);

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const wireTokens = (chars: number): number => Math.ceil(Math.max(0, chars) / WIRE_CHARS_PER_TOKEN);

/** A value inside a block that has no rule of its own: keys and scalars as text, opaque strings at wire size. */
const valueTokens = (value: unknown, estimator: Estimator): number => {
  if (typeof value === "string") return estimator.text(value) + 1;
  if (typeof value !== "object" || value === null) return estimator.text(String(value));
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + valueTokens(item, estimator), 1);
  let tokens = 1;
  for (const [key, item] of Object.entries(value)) {
    if (key === "cache_control") continue;
    tokens += estimator.text(key) + 1;
    tokens +=
      typeof item === "string" && OPAQUE_MEMBERS.has(key) ? wireTokens(item.length) : valueTokens(item, estimator);
  }
  return tokens;
};

/** A call's arguments: each in an envelope of its own, a string as it is, anything else as JSON. */
const argumentTokens = (input: unknown, estimator: Estimator): number => {
  if (!isFields(input)) return valueTokens(input, estimator);
  let tokens = 0;
  for (const [name, value] of Object.entries(input)) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    tokens += TOOL_ARGUMENT_TOKENS + estimator.text(name) + estimator.text(text);
  }
  return tokens;
};

const thinkingTokens = (thinking: string, signature: string, estimator: Estimator): number =>
  estimator.text(thinking) +
  wireTokens(signature.length - SIGNATURE_CHARS - Math.ceil(SIGNATURE_CHARS_PER_CHAR * thinking.length));

const mediaTokens = (block: Fields, estimator: Estimator): number => {
  const source = block["source"];
  if (!isFields(source)) return valueTokens(block, estimator);
  if (source["type"] === "content") return contentTokens(source["content"], estimator);
  const data = typeof source["data"] === "string" ? source["data"] : "";
  if (source["type"] === "text") return estimator.text(data);
  return block["type"] === "image" ? imageTokens(data) : pdfPages(data) * PDF_PAGE_TOKENS;
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

const blockTokens = (block: unknown, estimator: Estimator): number => {
  if (!isFields(block)) return valueTokens(block, estimator);
  switch (block["type"]) {
    case "text":
      // Citations, if any, are beside the text.
      return (
        BLOCK_TOKENS +
        estimator.text(textOf(block["text"])) +
        (block["citations"] ? valueTokens(block["citations"], estimator) : 0)
      );
    case "thinking":
      return THINKING_TOKENS + thinkingTokens(textOf(block["thinking"]), textOf(block["signature"]), estimator);
    case "redacted_thinking":
      return BLOCK_TOKENS + wireTokens(textOf(block["data"]).length);
    case "image":
    case "document":
      return BLOCK_TOKENS + mediaTokens(block, estimator);
    case "tool_use":
      return TOOL_USE_TOKENS + estimator.text(textOf(block["name"])) + argumentTokens(block["input"], estimator);
    case "tool_result":
      return BLOCK_TOKENS + contentTokens(block["content"], estimator);
    default:
      return BLOCK_TOKENS + valueTokens(block, estimator);
  }
};

const contentTokens = (content: unknown, estimator: Estimator): number => {
  if (typeof content === "string") return estimator.text(content);
  if (content === undefined) return 0;
  if (!Array.isArray(content)) return blockTokens(content, estimator);
  return content.reduce<number>((sum, block) => sum + blockTokens(block, estimator), 0);
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/**
 * The cost of one message, its envelope included, as the base tokenizer counts: what `messages.tokens` holds (E3).
 * @param content the JSON text of its blocks, with media inlined if there are any: a reference costs what an unreadable image does, or the pages that it tells
 */
export const estimateRow = (content: string, estimator: Estimator = defaultEstimator): number => {
  const blocks = parsed(content);
  return MESSAGE_TOKENS + (blocks === undefined ? estimator.text(content) : contentTokens(blocks, estimator));
};

const MEDIA_TYPE = /"type"\s*:\s*"(?:image|document)"/;

const mediaIn = (content: unknown): number => {
  if (!Array.isArray(content)) return 0;
  let items = 0;
  for (const block of content) {
    if (!isFields(block)) continue;
    const source = block["source"];
    if (block["type"] === "image") items++;
    else if (block["type"] === "document" && isFields(source) && source["type"] !== "text") {
      items += source["type"] === "content" ? mediaIn(source["content"]) : pdfPages(textOf(source["data"]));
    } else items += mediaIn(block["content"]);
  }
  return items;
};

/** Images and PDF pages of a message (E6). A PDF that is elsewhere counts by the pages that its reference tells. */
export const mediaItems = (content: string): number => (MEDIA_TYPE.test(content) ? mediaIn(parsed(content)) : 0);

const toolTokens = (tool: ToolDefinition, estimator: Estimator): number => {
  switch (tool.kind) {
    case "function":
      return (
        TOOL_TOKENS +
        estimator.text(tool.name) +
        estimator.text(tool.description) +
        estimator.text(JSON.stringify(tool.inputSchema))
      );
    case "provider":
      return TOOL_TOKENS + estimator.text(JSON.stringify(tool.definition));
    default: {
      const unhandled: never = tool;
      return unhandled;
    }
  }
};

const systemTokens = (block: SystemBlock, estimator: Estimator): number => BLOCK_TOKENS + estimator.text(block.text);

/** The size of a request by part, in tokens of the request's model. */
export interface RequestEstimate {
  readonly tokens: number;
  readonly systemTokens: number;
  readonly toolsTokens: number;
  /** The handoff is one of the messages. */
  readonly messagesTokens: number;
}

export interface EstimateOptions {
  readonly estimator?: Estimator;
  /**
   * The cached cost of a message, where its content is that of a row unchanged: `LogRow.tokens`. Undefined for a message that was
   * changed or made, which is then measured.
   */
  readonly knownTokens?: (message: ViewMessage, index: number) => number | undefined;
}

/**
 * Estimates a whole request (E1). Grows with every system block, tool and message that is added.
 * Linear in what has no cached cost; with cached rows it is a sum.
 */
export const estimateRequest = (request: ModelRequest, options: EstimateOptions = {}): RequestEstimate => {
  const estimator = options.estimator ?? defaultEstimator;
  const scale = estimator.scale(request.model);
  const sum = <T>(items: readonly T[], cost: (item: T, index: number) => number): number =>
    Math.ceil(scale * items.reduce((total, item, index) => total + cost(item, index), 0));
  const system = sum(request.system, (block) => systemTokens(block, estimator));
  const tools =
    sum(request.tools, (tool) => toolTokens(tool, estimator)) + (request.tools.length > 0 ? ANY_TOOL_TOKENS : 0);
  const messages = sum(
    request.messages,
    (message, index) => options.knownTokens?.(message, index) ?? estimateRow(message.content, estimator),
  );
  return {
    tokens: REQUEST_TOKENS + system + tools + messages,
    systemTokens: system,
    toolsTokens: tools,
    messagesTokens: messages,
  };
};
