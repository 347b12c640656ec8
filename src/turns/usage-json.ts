/** Usage in the words of the Messages API. */
import type { Usage } from "../protocol/messages.ts";

/** The four counts, in tokens; the prompt is the sum of the three input counts. */
export const usageJson = (usage: Usage) => ({
  input_tokens: usage.inputTokens,
  output_tokens: usage.outputTokens,
  cache_read_input_tokens: usage.cacheReadTokens,
  cache_creation_input_tokens: usage.cacheWriteTokens,
});
