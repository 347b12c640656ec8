/** A chat completion from its raw text to everything the simulator needs to answer it, refused where a server would refuse it. */
import type { Catalogue, SimModel } from "./catalogue.ts";
import { asBlocks, type ChatMessage, checkChatMessages, checkChatTools, systemText } from "./chat-messages.ts";
import { applyTemplate } from "./chat-template.ts";
import { expectBoolean, expectInteger, expectKeys, expectObject, expectString } from "./check.ts";
import { ApiError, invalid } from "./errors.ts";
import { isArray, isObject, type JsonObject, readJson } from "./json.ts";
import { digestOf } from "./prefix.ts";
import type { SimRequest } from "./request.ts";
import { countText, MESSAGE_TOKENS, TOOLS_TOKENS, type TokenMemory } from "./tokens.ts";

const FIELDS = [
  "model",
  "messages",
  "stream",
  "stream_options",
  "max_tokens",
  "max_completion_tokens",
  "user",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "temperature",
  "top_p",
  "stop",
  "seed",
  "reasoning_effort",
];

/** What an answer may have at most where the request does not say. */
const DEFAULT_MAX_TOKENS = 4_096;

export interface ChatRequest {
  /** As the agent and the script see it. */
  readonly request: SimRequest;
  /** Whether the usage is asked for in the stream. */
  readonly includesUsage: boolean;
  /** Tokens of tools and messages, in order. */
  readonly tokens: readonly number[];
  /** A digest of everything up to each of them, for the prefix cache. */
  readonly links: readonly string[];
}

/** A prompt over the window, in the words of each server. */
export const chatOverflow = (
  { server, maxInputTokens }: Pick<SimModel, "server" | "maxInputTokens">,
  tokens: number,
  answerTokens = 0,
): ApiError => {
  switch (server) {
    case "llama.cpp":
      // Newer servers keep the numbers out of the message.
      return new ApiError(
        400,
        "the request exceeds the available context size, try increasing it",
        "exceed_context_size_error",
        { code: 400, n_prompt_tokens: tokens, n_ctx: maxInputTokens },
      );
    case "vllm":
      return new ApiError(
        400,
        `This model's maximum context length is ${maxInputTokens} tokens. However, you requested ${tokens + answerTokens} tokens (${tokens} in the messages, ${answerTokens} in the completion). Please reduce the length of the messages or completion.`,
        "BadRequestError",
        { code: 400 },
      );
    default:
      return new ApiError(
        400,
        `This model's maximum context length is ${maxInputTokens} tokens. However, your messages resulted in ${tokens} tokens. Please reduce the length of the messages.`,
        "invalid_request_error",
        { code: "context_length_exceeded", param: "messages" },
      );
  }
};

const checkWindow = (model: SimModel, tokens: number, maxTokens: number): void => {
  if (tokens > model.maxInputTokens) throw chatOverflow(model, tokens);
  // vLLM counts the answer inside the window, and refuses one that would not fit.
  if (model.server === "vllm" && tokens + maxTokens > model.maxInputTokens)
    throw chatOverflow(model, tokens, maxTokens);
};

const readMaxTokens = (body: JsonObject): number => {
  if (body.max_tokens !== undefined && body.max_completion_tokens !== undefined)
    throw invalid("max_tokens", "may not stand beside max_completion_tokens");
  const [name, value] =
    body.max_completion_tokens === undefined
      ? (["max_tokens", body.max_tokens] as const)
      : (["max_completion_tokens", body.max_completion_tokens] as const);
  return value === undefined ? DEFAULT_MAX_TOKENS : expectInteger(value, name, 1);
};

const readStreamOptions = (body: JsonObject): boolean => {
  if (body.stream_options === undefined) return false;
  if (body.stream !== true) throw invalid("stream_options", "is only allowed where stream is true");
  const options = expectObject(body.stream_options, "stream_options");
  expectKeys(options, "stream_options", ["include_usage"]);
  return options.include_usage !== undefined && expectBoolean(options.include_usage, "stream_options.include_usage");
};

/**
 * Reads, checks and counts a request.
 * @throws ApiError as a server would answer
 */
export const readChatRequest = (
  bodyText: string,
  apiKey: string,
  catalogue: Catalogue,
  memory: TokenMemory,
): ChatRequest => {
  const { value } = readJson(bodyText);
  if (!isObject(value)) throw invalid("body", "expected a JSON object");
  const unknown = Object.keys(value).find((key) => !FIELDS.includes(key));
  if (unknown !== undefined) throw new ApiError(400, `Unrecognized request argument supplied: ${unknown}`);
  const model = catalogue.findChat(expectString(value.model, "model"));
  const maxTokens = readMaxTokens(value);
  const includesUsage = readStreamOptions(value);
  const userId = value.user === undefined ? "" : expectString(value.user, "user");
  const tools = checkChatTools(value.tools);
  const messages = checkChatMessages(value.messages);
  if (model.strictTemplate === true) applyTemplate(messages);

  const written = isArray(value.messages) ? value.messages.map((message) => JSON.stringify(message)) : [];
  const parts: readonly (readonly [text: string, tokens: number])[] = [
    ...(tools.length === 0 ? [] : [countedTools(JSON.stringify(value.tools))]),
    ...messages.map((message, at) => [written[at] ?? "", countMessage(message, memory)] as const),
  ];
  const links: string[] = [];
  for (const [text] of parts) links.push(digestOf(links.at(-1) ?? model.id, text));
  const tokens = parts.map(([, count]) => Math.ceil(count * model.tokenFactor));
  const promptTokens = tokens.reduce((sum, count) => sum + count, 0);
  checkWindow(model, promptTokens, maxTokens);
  const promptLink = links.at(-1) ?? model.id;
  return {
    includesUsage,
    tokens,
    links,
    request: {
      model,
      messages: asBlocks(messages),
      tools,
      system: systemText(messages),
      maxTokens: Math.min(maxTokens, model.maxOutputTokens),
      stream: value.stream === true,
      thinks: model.reasons === true,
      omitsThinking: false,
      dropsUnboundThinking: false,
      userId,
      body: value,
      bodyText,
      segments: [],
      tokens,
      promptTokens,
      cacheLinks: links,
      promptLink,
      binding: { model: model.id, apiKey, userId },
      droppedPaths: [],
    },
  };
};

const countedTools = (text: string): readonly [string, number] => [text, TOOLS_TOKENS + countText(text)];

const countMessage = ({ blocks }: ChatMessage, memory: TokenMemory): number =>
  blocks.reduce((sum, block) => {
    const written = JSON.stringify(block);
    return sum + memory(digestOf("chat", written), block, written);
  }, MESSAGE_TOKENS);
