/** Builds the JSON text of `POST /chat/completions`. */
import type { ModelRequest, ToolDefinition } from "../protocol/messages.ts";
import { type ChatDialect, chatMessages, systemMessage } from "./chat-messages.ts";
import type { ResolveMedia } from "./provider.ts";
import { bodyText } from "./request-body.ts";

export interface ChatBodyOptions extends ChatDialect {
  /** The model's name as the server knows it. */
  readonly model: string;
  /** OpenAI's newer models refuse `max_tokens`, other servers do not know `max_completion_tokens`. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /** The end user as an opaque id. */
  readonly user?: string;
}

const quoted = (value: string): string => JSON.stringify(value.toWellFormed());

/** Tools that Anthropic runs itself have no place here and are left out: a session may change its model at any time. */
const toolText = (tool: ToolDefinition): readonly string[] =>
  tool.kind === "function"
    ? [
        `{"type":"function","function":{"name":${quoted(tool.name)},"description":${quoted(tool.description)},"parameters":${JSON.stringify(tool.inputSchema)}}}`,
      ]
    : [];

/**
 * The body of a streamed chat completion as JSON text (V9, V10). `thinking` is no setting of this API and is left out.
 * @param resolve puts media back; asked only for messages that have some
 * @throws ModelError of kind `too_large` when the body is over `MAX_BODY_BYTES`
 */
export const chatBody = async (
  request: ModelRequest,
  options: ChatBodyOptions,
  resolve: ResolveMedia,
): Promise<string> => {
  const messages: string[] = [...systemMessage(request.system)];
  // One after another: media of several messages at once would not fit the isolate's memory (V10).
  for (const message of request.messages) {
    const content = message.media.length > 0 ? await resolve(message.content, message.media) : message.content;
    messages.push(...chatMessages(message, content, options));
  }
  const tools = request.tools.flatMap(toolText);
  return bodyText([
    `"model":${quoted(options.model)}`,
    '"stream":true',
    '"stream_options":{"include_usage":true}',
    `"${options.maxTokensField}":${request.maxTokens}`,
    ...(options.user === undefined ? [] : [`"user":${quoted(options.user)}`]),
    ...(tools.length > 0 ? [`"tools":[${tools.join(",")}]`] : []),
    `"messages":[${messages.join(",")}]`,
  ]);
};
