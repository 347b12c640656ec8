/**
 * Token counts by a real byte-pair encoding (o200k, from the `gpt-tokenizer` package), on purpose not hango's estimator:
 * what hango estimates is compared with a count it had no part in.
 */
import { countTokens as countBpe } from "gpt-tokenizer/encoding/o200k_base";
import type { Json, JsonObject } from "./json.ts";
import { isArray, isObject } from "./json.ts";

/** Tokens around every block. */
const BLOCK_TOKENS = 3;
/** Tokens around every message. */
export const MESSAGE_TOKENS = 4;
/** Tokens of the instructions that the API adds when tools are offered. */
export const TOOLS_TOKENS = 300;
/** Tokens of a tool call's and a tool result's envelope. */
const CALL_TOKENS = 12;
/** Tokens of an image whose size cannot be read. */
const IMAGE_TOKENS = 1_600;
/** Tokens of one page of a PDF. */
const PAGE_TOKENS = 2_000;

/** Runs without a break are encoded in pieces: the encoder's time grows with the square of a run's length. */
const LONG_RUN = /[\p{L}\p{M}]{256}|\s{256}|[^\s\p{L}\p{N}]{256}/gu;
const AS_PLAIN_TEXT = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() };

/** Tokens of a text; names of special tokens in it are plain text. */
export const countText = (text: string): number => {
  let tokens = 0;
  let from = 0;
  for (const run of text.matchAll(LONG_RUN)) {
    tokens += countBpe(text.slice(from, run.index), AS_PLAIN_TEXT) + countBpe(run[0], AS_PLAIN_TEXT);
    from = run.index + run[0].length;
  }
  return tokens + countBpe(from === 0 ? text : text.slice(from), AS_PLAIN_TEXT);
};

/** Width and height in the head of a PNG, or undefined. */
const pngSize = (base64: string): { readonly width: number; readonly height: number } | undefined => {
  const head = Buffer.from(base64.slice(0, 64), "base64");
  if (head.length < 24 || head.toString("latin1", 1, 4) !== "PNG") return undefined;
  return { width: head.readUInt32BE(16), height: head.readUInt32BE(20) };
};

/** An image costs its pixels over 750, at most 1,600 tokens, as the API documents. */
const countImage = (source: Json | undefined): number => {
  const size = isObject(source) && typeof source.data === "string" ? pngSize(source.data) : undefined;
  return size === undefined ? IMAGE_TOKENS : Math.min(IMAGE_TOKENS, Math.ceil((size.width * size.height) / 750));
};

/** Pages of a base64 PDF, at least one. */
export const pdfPages = (base64: string): number =>
  Math.max(
    1,
    Buffer.from(base64, "base64")
      .toString("latin1")
      .match(/\/Type\s*\/Page\b/g)?.length ?? 0,
  );

const countDocument = (source: Json | undefined): number => {
  if (!isObject(source)) return PAGE_TOKENS;
  if (source.type === "text" && typeof source.data === "string") return countText(source.data);
  if (source.type === "base64" && typeof source.data === "string") return PAGE_TOKENS * pdfPages(source.data);
  return PAGE_TOKENS;
};

const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");

/** Encrypted data inside a block, as results of the provider's own tools have it. */
const ENCRYPTED = /"encrypted_[a-z_]+"\s*:\s*"([^"\\]*)"/g;

/** A block of no known type: its whole JSON, of which encrypted data is its size over 4. */
const countWritten = (written: string): number => {
  let encrypted = 0;
  const rest = written.replace(ENCRYPTED, (_, data: string) => {
    encrypted += Math.ceil(data.length / 4);
    return "";
  });
  return encrypted + countText(rest);
};

/**
 * Tokens of one content block, before the model's factor: text and thinking by their text (a signature costs nothing),
 * encrypted data its size over 4, a tool call its whole JSON, an image its pixels, a document its pages.
 * @param written the block's JSON text, counted whole where the block is of no known type
 */
export const countBlock = (block: JsonObject, written: string): number => {
  switch (block.type) {
    case "text":
      return BLOCK_TOKENS + countText(text(block.text));
    case "thinking":
      return BLOCK_TOKENS + countText(text(block.thinking));
    case "redacted_thinking":
      return BLOCK_TOKENS + Math.ceil(text(block.data).length / 4);
    case "tool_use":
      return CALL_TOKENS + countText(written);
    case "tool_result": {
      const content = block.content;
      if (!isArray(content)) return CALL_TOKENS + countText(text(content));
      const blocks = content.filter(isObject);
      return CALL_TOKENS + blocks.reduce((sum, inner) => sum + countBlock(inner, JSON.stringify(inner)), 0);
    }
    case "image":
      return BLOCK_TOKENS + countImage(block.source);
    case "document":
      return BLOCK_TOKENS + countDocument(block.source);
    default:
      return BLOCK_TOKENS + countWritten(written);
  }
};

/** Remembers the counts of the blocks used last, so that replaying a long session encodes every block once. */
export const createTokenMemory = (entries = 200_000) => {
  const counts = new Map<string, number>();
  /** @param digest identifies the block */
  return (digest: string, block: JsonObject, written: string): number => {
    const known = counts.get(digest);
    const tokens = known ?? countBlock(block, written);
    if (known !== undefined) counts.delete(digest);
    counts.set(digest, tokens);
    if (counts.size > entries) {
      const oldest = counts.keys().next();
      if (!oldest.done) counts.delete(oldest.value);
    }
    return tokens;
  };
};

export type TokenMemory = ReturnType<typeof createTokenMemory>;

/** The longest beginning of a text that has at most this many tokens. */
export const cutToTokens = (whole: string, tokens: number): string => {
  if (countText(whole) <= tokens) return whole;
  let low = 0;
  let high = whole.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (countText(whole.slice(0, middle)) <= tokens) low = middle;
    else high = middle - 1;
  }
  return whole.slice(0, low).replace(/[\ud800-\udbff]$/, "");
};
