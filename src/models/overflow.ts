/**
 * Recognises a provider's way of saying that a prompt does not fit (context.md section 8). No provider has a code for it
 * that can be relied on, so the texts are known one by one: `test/fixtures/overflow-texts.json` holds them.
 */

/** What an overflow text states, in tokens; absent where it states nothing. */
export interface Overflow {
  /** The most that fits. */
  readonly limit?: number;
  /** What was sent. */
  readonly size?: number;
}

/** An error text is a sentence or two; anything beyond is an echo of the prompt and is not looked at. */
const MAX_TEXT_CHARS = 4_000;

/**
 * Texts that share words with an overflow and are none. Checked first. A per-minute limit that says that the request
 * itself is larger than the limit is an overflow all the same: see `OVERSIZED`.
 */
const NEGATIVES: readonly RegExp[] = [
  /rate[ _-]limit/i,
  /too many requests/i,
  /throttl/i,
  /wait before trying/i,
  /per (?:minute|min|day|hour)\b/i,
  /exceeded your current quota/i,
  /max_tokens\b.{0,80}\bmaximum (?:allowed )?(?:number of )?output tokens/i,
  /window too small/i,
  /image.{0,60}(?:exceed|dimension)|\bpixels\b/i,
  /string_above_max_length|string too long/i,
];

/** A request that alone is over a per-minute limit: no waiting makes it fit. */
const OVERSIZED: readonly RegExp[] = [
  /request too large for .{0,300}?limit:? (?<limit>\d[\d,]*), requested:? (?<size>\d[\d,]*)/is,
  /request too large for /i,
  /extra usage is required for long context/i,
];

/**
 * In order: a pattern with numbers stands before a general one that would match the same text. Groups name what a text
 * states. Every gap is bounded, so that no text takes long.
 */
const PATTERNS: readonly RegExp[] = [
  // Anthropic
  /prompt is too long: (?<size>\d[\d,]*) tokens > (?<limit>\d[\d,]*) maximum/i,
  /input length and .?max_tokens.? exceed context limit: (?<size>\d[\d,]*) \+ \d[\d,]* > (?<limit>\d[\d,]*)/i,
  /prompt (?:is )?too (?:long|large)/i,
  /model_context_window_exceeded/i,
  /request_too_large|request exceeds the maximum size|request entity too large/i,
  // OpenAI, OpenRouter, DeepSeek, vLLM
  /maximum context length is (?<limit>\d[\d,]*) tokens.{0,80}?(?:requested|resulted in|request has) (?:about )?(?<size>\d[\d,]*)/is,
  /maximum context length is (?<limit>\d[\d,]*)/i,
  /input length \((?<size>\d[\d,]*)\) exceeds (?:the )?model'?s maximum context length \((?<limit>\d[\d,]*)\)/i,
  /prompt \(length (?<size>\d[\d,]*)\) is longer than the maximum model length of (?<limit>\d[\d,]*)/i,
  /context window is (?<limit>\d[\d,]*) tokens.{0,40}?requested (?<size>\d[\d,]*) /is,
  /context[_ ]length[_ ]exceeded/i,
  /exceeds? the (?:model'?s )?context window|context window exceeded/i,
  // Gemini
  /input token count \(?(?<size>\d[\d,]*)\)? exceeds the maximum number of tokens allowed \(?(?<limit>\d[\d,]*)/i,
  /input token count.{0,40}exceeds the maximum/i,
  // Bedrock
  /input is too long/i,
  // SGLang, Together
  /input \((?<size>\d[\d,]*) tokens\) is longer than the model'?s context length \((?<limit>\d[\d,]*) tokens\)/i,
  // llama.cpp
  /request \((?<size>\d[\d,]*) tokens\) exceeds the available context size \((?<limit>\d[\d,]*) tokens\)/i,
  /available context size.{0,80}?n_prompt_tokens"?[=:] ?(?<size>\d+),.{0,4}?n_ctx"?[=:] ?(?<limit>\d+)/is,
  /exceeds the available context size|exceed_context_size_error|context size has been exceeded/i,
  // Mistral
  /prompt contains (?<size>\d[\d,]*) tokens.{0,80}?too large for model with (?<limit>\d[\d,]*) maximum context length/is,
  /too large for model with (?<limit>\d[\d,]*) maximum context length/i,
  // Ollama, LM Studio
  /input length exceeds (?:the )?(?:maximum )?context length/i,
  /number of tokens to keep from the initial prompt is greater than the context length/i,
  // xAI
  /maximum prompt length is (?<limit>\d[\d,]*) but the request contains (?<size>\d[\d,]*) tokens/i,
  // Copilot
  /prompt token count of (?<size>\d[\d,]*) exceeds the limit of (?<limit>\d[\d,]*)/i,
  // Cohere
  /total number of tokens in the prompt exceeds the limit of (?<limit>\d[\d,]*)/i,
  // Kimi, MiniMax, Cerebras, Groq
  /exceeded model token limit:? (?<limit>\d[\d,]*) \(requested:? (?<size>\d[\d,]*)\)/i,
  /exceeded model token limit/i,
  /context window exceeds limit/i,
  /current length is (?<size>\d[\d,]*) while limit is (?<limit>\d[\d,]*)/i,
  /reduce the length of the (?:messages|prompt|input)/i,
  /too many tokens in (?:the |your )?(?:prompt|request|input)|prompt has too many tokens|^too many tokens$/i,
];

const count = (text: string | undefined): number | undefined => {
  const value = Number((text ?? "").replaceAll(",", ""));
  return Number.isSafeInteger(value) && value > 0 ? value : undefined;
};

const firstMatch = (patterns: readonly RegExp[], text: string): Overflow | undefined => {
  for (const pattern of patterns) {
    const match = pattern.exec(text);
    if (!match) continue;
    const limit = count(match.groups?.limit);
    const size = count(match.groups?.size);
    return { ...(limit === undefined ? {} : { limit }), ...(size === undefined ? {} : { size }) };
  }
  return undefined;
};

/**
 * Whether an error says that the request does not fit the model's window, and what it states about it.
 * @param status the HTTP status; undefined for an error inside a stream
 * @param text the error's text: its message, type and code are all welcome
 * @returns undefined when it is another error (context.md section 8)
 */
export const readOverflow = (status: number | undefined, text: string): Overflow | undefined => {
  const head = text.slice(0, MAX_TEXT_CHARS);
  const oversized = firstMatch(OVERSIZED, head);
  if (oversized) return oversized;
  if (status === 413) return firstMatch(PATTERNS, head) ?? {};
  if (status === 401 || status === 402 || status === 403 || status === 404) return undefined;
  return NEGATIVES.some((negative) => negative.test(head)) ? undefined : firstMatch(PATTERNS, head);
};

/** Share of the window from which a 400 that says nothing is read as an overflow (context.md section 8). */
const NEAR_WINDOW_FRAC = 0.95;

/**
 * Whether a rejected request was so close to the window that the rejection counts as an overflow, whatever it says.
 * @param status the HTTP status of the rejection
 * @param estimateTokens our estimate of the request
 * @param windowTokens the model's window
 */
export const isOverflowByEstimate = (
  status: number | undefined,
  estimateTokens: number,
  windowTokens: number,
): boolean => status === 400 && windowTokens > 0 && estimateTokens >= NEAR_WINDOW_FRAC * windowTokens;
