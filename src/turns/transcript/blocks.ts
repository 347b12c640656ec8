/** Content blocks of the Messages API, checked as far as a later request would be rejected for them (messages-api.md). */
import type { Role } from "../../protocol/messages.ts";
import {
  type DraftCall,
  type DraftResult,
  expected,
  isObject,
  type JsonObject,
  requireString,
  requireText,
} from "./draft.ts";

/** What a tool call's id may be. */
export const CALL_ID = /^[A-Za-z0-9_-]+$/;
/** What a tool's name may be. */
export const TOOL_NAME = /^[A-Za-z0-9_-]{1,128}$/;

/** Calls and results of tools that the provider runs: `server_tool_use`, `web_search_tool_result`, `mcp_tool_use` and those to come. */
const SERVER_TOOL = /^[a-z][a-z0-9_]*_tool_(?:use|result)$/;

const USER_TYPES = ["text", "image", "document", "tool_result", "search_result", "container_upload"] as const;
const ASSISTANT_TYPES = [
  "text",
  "thinking",
  "redacted_thinking",
  "tool_use",
  "compaction",
  "container_upload",
] as const;
const RESULT_TYPES = ["text", "image", "document", "search_result", "tool_reference"] as const;

/** What pairing needs to know of a message's blocks. */
export interface BlockSummary {
  readonly calls: readonly DraftCall[];
  readonly results: readonly DraftResult[];
  /** Null when there is anything but text. */
  readonly texts: readonly string[] | null;
}

const SOURCE_FIELD: ReadonlyMap<unknown, string> = new Map([
  ["url", "url"],
  ["file", "file_id"],
  ["text", "data"],
]);

const checkSource = (block: JsonObject, path: string): void => {
  const { source } = block;
  if (!isObject(source)) throw expected(`${path}.source`, "an object", source);
  const at = `${path}.source`;
  if (source.type === "base64") {
    requireString(source, "media_type", at);
    if (requireString(source, "data", at) === "") throw expected(`${at}.data`, "base64 text", "");
    return;
  }
  if (source.type === "content") {
    if (typeof source.content !== "string" && !Array.isArray(source.content)) {
      throw expected(`${at}.content`, "a string or an array of blocks", source.content);
    }
    return;
  }
  const field = SOURCE_FIELD.get(source.type);
  if (field === undefined) throw expected(`${at}.type`, "one of base64, url, file, text, content", source.type);
  requireString(source, field, at);
};

const checkCall = (block: JsonObject, path: string): DraftCall => {
  const id = requireString(block, "id", path);
  if (!CALL_ID.test(id)) throw expected(`${path}.id`, "an id of the characters A-Z, a-z, 0-9, _ and -", id);
  const name = requireString(block, "name", path);
  if (!TOOL_NAME.test(name)) {
    throw expected(`${path}.name`, "a name of 1 to 128 of the characters A-Z, a-z, 0-9, _ and -", name);
  }
  if (!isObject(block.input)) throw expected(`${path}.input`, "an object", block.input);
  return { id, name, path: `${path}.id` };
};

/** An image as MCP servers write it. Recorded tool results hold it untranslated, and their bytes are kept (V9). */
const isMcpImage = (part: unknown): boolean =>
  isObject(part) && part.type === "image" && typeof part.data === "string" && typeof part.mimeType === "string";

const checkResult = (block: JsonObject, path: string): DraftResult => {
  const id = requireString(block, "tool_use_id", path);
  const { content, is_error } = block;
  if (is_error !== undefined && typeof is_error !== "boolean")
    throw expected(`${path}.is_error`, "true or false", is_error);
  if (Array.isArray(content)) {
    content.forEach((part, index) => {
      if (!isMcpImage(part)) checkPart(part, `${path}.content[${index}]`, RESULT_TYPES);
    });
  } else if (content !== undefined && typeof content !== "string") {
    throw expected(`${path}.content`, "a string or an array of blocks", content);
  }
  return { id, path: `${path}.tool_use_id` };
};

const typeOf = (block: unknown, path: string): { readonly block: JsonObject; readonly type: string } => {
  if (!isObject(block)) throw expected(path, "a content block", block);
  return { block, type: requireString(block, "type", path) };
};

/** Checks a block that neither calls nor answers, and answers its text if it is one. */
const checkPart = (given: unknown, path: string, allowed: readonly string[]): string | undefined => {
  const { block, type } = typeOf(given, path);
  if (!allowed.includes(type)) throw expected(`${path}.type`, `one of ${allowed.join(", ")}`, type);
  switch (type) {
    case "text":
      return requireText(block.text, `${path}.text`);
    case "image":
    case "document":
      checkSource(block, path);
      return undefined;
    case "thinking":
      requireString(block, "thinking", path);
      return undefined;
    case "redacted_thinking":
      requireString(block, "data", path);
      return undefined;
    case "container_upload":
      requireString(block, "file_id", path);
      return undefined;
    default:
      return undefined;
  }
};

const summarise = (blocks: readonly unknown[], texts: readonly (string | undefined)[]): readonly string[] | null => {
  const found = texts.filter((text) => text !== undefined);
  return found.length === blocks.length ? found : null;
};

const checkUser = (blocks: readonly unknown[], path: string): BlockSummary => {
  const results: DraftResult[] = [];
  const texts = blocks.map((given, index) => {
    const at = `${path}[${index}]`;
    const { block, type } = typeOf(given, at);
    if (type !== "tool_result") return checkPart(block, at, USER_TYPES);
    if (results.length < index) {
      throw expected(`${at}.type`, "tool results before every other block of their message", type);
    }
    results.push(checkResult(block, at));
    return undefined;
  });
  return { calls: [], results, texts: summarise(blocks, texts) };
};

const checkAssistant = (blocks: readonly unknown[], path: string): BlockSummary => {
  const calls: DraftCall[] = [];
  const texts = blocks.map((given, index) => {
    const at = `${path}[${index}]`;
    const { block, type } = typeOf(given, at);
    if (type === "tool_use") {
      calls.push(checkCall(block, at));
      return undefined;
    }
    if (type === "compaction" && index > 0)
      throw expected(`${at}.type`, "a compaction block to be the first (V6)", type);
    if (type !== "tool_result" && SERVER_TOOL.test(type)) {
      requireString(block, type.endsWith("_use") ? "id" : "tool_use_id", at);
      return undefined;
    }
    return checkPart(block, at, ASSISTANT_TYPES);
  });
  return { calls, results: [], texts: summarise(blocks, texts) };
};

/**
 * Checks the blocks of one message.
 * @param path where the array of blocks stands: `messages[12].content`
 * @throws TranscriptError
 */
export const checkBlocks = (role: Role, blocks: readonly unknown[], path: string): BlockSummary =>
  role === "user" ? checkUser(blocks, path) : checkAssistant(blocks, path);
