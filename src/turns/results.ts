/** Tool results as content blocks. */

import type { ResultBlock, ToolResult } from "../protocol/tool.ts";
import type { StoredAnswer } from "../store/loaded-session.ts";

/** An empty result block is refused by the API; the model is told what an empty answer means. */
const NOTHING = "(no output)";

const isBlankText = (block: ResultBlock): boolean => block.type === "text" && block.text.trim() === "";

const contentOf = (content: ToolResult["content"]): ToolResult["content"] => {
  if (typeof content === "string") return content.trim() === "" ? NOTHING : content.toWellFormed();
  const kept = content.filter((block) => !isBlankText(block));
  return kept.length === 0
    ? NOTHING
    : kept.map((block) => (block.type === "text" ? { ...block, text: block.text.toWellFormed() } : block));
};

/** The `tool_result` block that answers a call, as JSON text. */
export const resultBlocks = (callId: string, result: ToolResult): string =>
  JSON.stringify({
    type: "tool_result",
    tool_use_id: callId,
    content: contentOf(result.content),
    ...(result.isError === true ? { is_error: true } : {}),
  });

/** A result as it is kept while its batch waits for others. */
export const storedAnswerOf = (result: ToolResult): StoredAnswer => ({
  content: JSON.stringify(contentOf(result.content)),
  isError: result.isError === true,
});

/** The same, read back. */
export const resultOf = ({ content, isError }: StoredAnswer): ToolResult => ({
  content: JSON.parse(content),
  ...(isError ? { isError } : {}),
});

/** The content of the message that answers a batch. */
export const resultsContent = (blocks: readonly string[]): string => `[${blocks.join(",")}]`;
