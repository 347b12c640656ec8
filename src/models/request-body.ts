/** Builds the JSON text that goes to the Messages API. Message contents are spliced in as they are stored (rule V9). */
import type { ModelRequest, SystemBlock, ToolDefinition, ViewMessage } from "../protocol/messages.ts";
import { withCacheMark } from "./cache-mark.ts";
import { ModelError } from "./errors.ts";
import type { ResolveMedia } from "./provider.ts";

/** The API takes bodies up to 32 MB (messages-api.md); it counts in powers of two, the smaller reading is the safe one. */
export const MAX_BODY_BYTES = 32_000_000;

export interface BodyOptions {
  readonly stream: boolean;
  /** The end user as an opaque id: `metadata.user_id`. */
  readonly user?: string;
  /** Without it, no cache mark is sent. */
  readonly promptCaching: boolean;
}

/** A string as JSON. A lone surrogate would be a 400 on every retry, so none leaves here. */
const text = (value: string): string => JSON.stringify(value.toWellFormed());

/** System blocks without blank ones, which the API rejects; a blank block's mark moves to the block before it. */
const systemText = (blocks: readonly SystemBlock[], promptCaching: boolean): string => {
  const kept: { readonly text: string; cacheMark: boolean }[] = [];
  for (const block of blocks) {
    const last = kept.at(-1);
    const cacheMark = promptCaching && block.cacheMark === true;
    if (block.text.trim() !== "") kept.push({ text: block.text, cacheMark });
    else if (last) last.cacheMark ||= cacheMark;
  }
  const parts = kept.map((block) => {
    const json = `[{"type":"text","text":${text(block.text)}}]`;
    return (block.cacheMark ? withCacheMark(json) : json).slice(1, -1);
  });
  return `[${parts.join(",")}]`;
};

const toolText = (tool: ToolDefinition): string => {
  switch (tool.kind) {
    case "function":
      return `{"name":${text(tool.name)},"description":${text(tool.description)},"input_schema":${JSON.stringify(tool.inputSchema)}}`;
    case "provider":
      return JSON.stringify(tool.definition);
    default: {
      const unhandled: never = tool;
      return unhandled;
    }
  }
};

const messageText = async (message: ViewMessage, promptCaching: boolean, resolve: ResolveMedia): Promise<string> => {
  const marked = promptCaching && message.cacheMark ? withCacheMark(message.content) : message.content;
  const content = message.media.length > 0 ? await resolve(marked, message.media) : marked;
  return `{"role":"${message.role}","content":${content}}`;
};

/** The members that the call and the token count share, in the order of the prompt cache: tools, system, messages. */
const promptMembers = async (
  request: ModelRequest,
  promptCaching: boolean,
  resolve: ResolveMedia,
): Promise<readonly string[]> => {
  const system = systemText(request.system, promptCaching);
  // One after another: media of several messages at once would not fit the isolate's memory (V10).
  const messages: string[] = [];
  for (const message of request.messages) messages.push(await messageText(message, promptCaching, resolve));
  return [
    ...(request.tools.length > 0 ? [`"tools":[${request.tools.map(toolText).join(",")}]`] : []),
    ...(system === "[]" ? [] : [`"system":${system}`]),
    ...(request.thinking ? [`"thinking":${JSON.stringify(request.thinking)}`] : []),
    `"messages":[${messages.join(",")}]`,
  ];
};

/** Bytes of a string in UTF-8, counted without encoding it: a second copy of 32 MB is a quarter of the isolate. */
export const utf8Bytes = (value: string): number => {
  let bytes = value.length;
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code < 0x80) continue;
    // Each half of a surrogate pair counts 2, a pair so counts 4; other units from 0x800 on count 3.
    bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return bytes;
};

/**
 * A body of these members as JSON text.
 * @throws ModelError of kind `too_large` when it is over `MAX_BODY_BYTES`
 */
export const bodyText = (members: readonly string[]): string => {
  const body = `{${members.join(",")}}`;
  // No text has more than 3 bytes per unit, so most bodies need no count.
  const sizeBytes = body.length * 3 <= MAX_BODY_BYTES ? 0 : utf8Bytes(body);
  if (sizeBytes > MAX_BODY_BYTES) throw new ModelError({ kind: "too_large", sizeBytes, limitBytes: MAX_BODY_BYTES });
  return body;
};

/**
 * The body of `POST /v1/messages` as JSON text (V9, V10).
 * @param resolve puts media back; asked only for messages that have some
 * @throws ModelError of kind `too_large` when the body is over `MAX_BODY_BYTES`
 */
export const anthropicBody = async (
  request: ModelRequest,
  options: BodyOptions,
  resolve: ResolveMedia,
): Promise<string> =>
  bodyText([
    `"model":${text(request.model)}`,
    `"max_tokens":${request.maxTokens}`,
    ...(options.stream ? ['"stream":true'] : []),
    ...(options.user === undefined ? [] : [`"metadata":{"user_id":${text(options.user)}}`]),
    ...(await promptMembers(request, options.promptCaching, resolve)),
  ]);

/**
 * The body of `POST /v1/messages/count_tokens` as JSON text: the same prompt, without cache marks, since they cost nothing.
 * @throws ModelError of kind `too_large` when the body is over `MAX_BODY_BYTES`
 */
export const anthropicCountBody = async (request: ModelRequest, resolve: ResolveMedia): Promise<string> =>
  bodyText([`"model":${text(request.model)}`, ...(await promptMembers(request, false, resolve))]);
