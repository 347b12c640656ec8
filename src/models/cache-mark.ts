/** Puts prompt-cache marks into stored content, as text (rules V9; context.md section 10). */
import { isRecord } from "../protocol/is-record.ts";
import { arrayElements } from "../protocol/json-text.ts";
import type { ContentText } from "../protocol/messages.ts";

/** The default TTL for every mark: a longer one would have to stand before every shorter one (messages-api.md). */
const CACHE_MARK = '"cache_control":{"type":"ephemeral"}';

/** Whether a block may carry a cache mark: thinking may not, and neither may an empty text (messages-api.md). */
const isMarkable = (block: unknown): block is Readonly<Record<string, unknown>> => {
  if (!isRecord(block)) return false;
  switch (block.type) {
    case "thinking":
    case "redacted_thinking":
      return false;
    case "text":
      return typeof block.text === "string" && block.text.trim() !== "";
    default:
      return typeof block.type === "string";
  }
};

/**
 * Marks a message for the prompt cache: inserts the mark into the last block that may carry one; every other byte stays.
 * A message without such a block, or whose block has a mark already, is answered as it is.
 * @throws SyntaxError when the content is no JSON array of objects
 */
export const withCacheMark = (content: ContentText): ContentText => {
  for (const { start, end } of arrayElements(content).toReversed()) {
    const block: unknown = JSON.parse(content.slice(start, end));
    if (!isMarkable(block)) continue;
    if (Object.hasOwn(block, "cache_control")) return content;
    return `${content.slice(0, end - 1)},${CACHE_MARK}${content.slice(end - 1)}`;
  }
  return content;
};
