/** What a content block may look like, by type. */
import {
  at,
  expectArray,
  expectBoolean,
  expectCacheControl,
  expectKeys,
  expectObject,
  expectOneOf,
  expectPattern,
  expectString,
  expectText,
} from "./check.ts";
import { invalid } from "./errors.ts";
import type { Json, JsonObject } from "./json.ts";
import { isArray } from "./json.ts";

const IMAGE_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"];
export const CALL_ID = /^[a-zA-Z0-9_-]+$/;
const CALL_NAME = /^[a-zA-Z0-9_-]{1,200}$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

type Check = (block: JsonObject, path: string) => void;

const expectBase64 = (value: Json | undefined, path: string): void => {
  const data = expectString(value, path);
  if (data === "") throw invalid(path, "String should have at least 1 character");
  if (data.length % 4 !== 0 || !BASE64.test(data)) throw invalid(path, "invalid base64 data");
};

const imageSource: Check = (source, path) => {
  switch (expectOneOf(source.type, at(path, "type"), ["base64", "url", "file"])) {
    case "base64":
      expectKeys(source, path, ["type", "media_type", "data"]);
      expectOneOf(source.media_type, at(path, "media_type"), IMAGE_TYPES);
      return expectBase64(source.data, at(path, "data"));
    case "url":
      expectKeys(source, path, ["type", "url"]);
      return void expectString(source.url, at(path, "url"));
    default:
      expectKeys(source, path, ["type", "file_id"]);
      expectString(source.file_id, at(path, "file_id"));
  }
};

const documentSource: Check = (source, path) => {
  switch (expectOneOf(source.type, at(path, "type"), ["base64", "text", "url", "content", "file"])) {
    case "base64":
      expectKeys(source, path, ["type", "media_type", "data"]);
      expectOneOf(source.media_type, at(path, "media_type"), ["application/pdf"]);
      return expectBase64(source.data, at(path, "data"));
    case "text":
      expectKeys(source, path, ["type", "media_type", "data"]);
      expectOneOf(source.media_type, at(path, "media_type"), ["text/plain"]);
      return void expectText(source.data, at(path, "data"));
    case "url":
      expectKeys(source, path, ["type", "url"]);
      return void expectString(source.url, at(path, "url"));
    case "content":
      expectKeys(source, path, ["type", "content"]);
      if (typeof source.content === "string") return void expectText(source.content, at(path, "content"));
      return checkInner(expectArray(source.content, at(path, "content")), at(path, "content"), ["text", "image"]);
    default:
      expectKeys(source, path, ["type", "file_id"]);
      expectString(source.file_id, at(path, "file_id"));
  }
};

const text: Check = (block, path) => {
  expectKeys(block, path, ["type", "text", "cache_control", "citations"]);
  if (block.text === "" && block.cache_control !== undefined && block.cache_control !== null) {
    throw invalid(at(path, "cache_control"), "cache_control cannot be set for empty text blocks");
  }
  expectText(block.text, at(path, "text"));
  expectCacheControl(block.cache_control, at(path, "cache_control"));
};

const image: Check = (block, path) => {
  expectKeys(block, path, ["type", "source", "cache_control", "transformations"]);
  imageSource(expectObject(block.source, at(path, "source")), at(path, "source"));
  expectCacheControl(block.cache_control, at(path, "cache_control"));
};

const document: Check = (block, path) => {
  expectKeys(block, path, ["type", "source", "cache_control", "citations", "context", "title"]);
  documentSource(expectObject(block.source, at(path, "source")), at(path, "source"));
  expectCacheControl(block.cache_control, at(path, "cache_control"));
};

const thinking: Check = (block, path) => {
  expectKeys(block, path, ["type", "thinking", "signature"]);
  expectString(block.thinking, at(path, "thinking"));
  expectString(block.signature, at(path, "signature"));
};

const redactedThinking: Check = (block, path) => {
  expectKeys(block, path, ["type", "data"]);
  expectString(block.data, at(path, "data"));
};

const toolUse: Check = (block, path) => {
  expectKeys(block, path, ["type", "id", "name", "input", "cache_control", "caller", "toolset_name"]);
  expectPattern(block.id, at(path, "id"), CALL_ID);
  expectPattern(block.name, at(path, "name"), CALL_NAME);
  expectObject(block.input, at(path, "input"));
  expectCacheControl(block.cache_control, at(path, "cache_control"));
};

const toolResult: Check = (block, path) => {
  expectKeys(block, path, ["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"]);
  expectPattern(block.tool_use_id, at(path, "tool_use_id"), CALL_ID);
  expectCacheControl(block.cache_control, at(path, "cache_control"));
  if (block.is_error !== undefined) expectBoolean(block.is_error, at(path, "is_error"));
  const content = block.content;
  const empty = content === undefined || content === "" || (isArray(content) && content.length === 0);
  if (empty && block.is_error === true)
    throw invalid(at(path, "content"), "content cannot be empty if `is_error` is true");
  if (content === undefined || typeof content === "string") return;
  checkInner(expectArray(content, at(path, "content")), at(path, "content"), INNER_TYPES);
};

/** A block that a provider's own tool made: kept as it came, known by its id. */
const serverBlock: Check = (block, path) => {
  expectPattern(
    block.id ?? block.tool_use_id,
    at(path, block.type === "server_tool_use" ? "id" : "tool_use_id"),
    CALL_ID,
  );
  expectCacheControl(block.cache_control, at(path, "cache_control"));
};

const loose: Check = (block, path) => expectCacheControl(block.cache_control, at(path, "cache_control"));

const CHECKS: Readonly<Record<string, Check>> = {
  text,
  image,
  document,
  container_upload: loose,
  search_result: loose,
  tool_reference: loose,
  thinking,
  redacted_thinking: redactedThinking,
  tool_use: toolUse,
  tool_result: toolResult,
  server_tool_use: serverBlock,
  web_search_tool_result: serverBlock,
  web_fetch_tool_result: serverBlock,
  code_execution_tool_result: serverBlock,
  bash_code_execution_tool_result: serverBlock,
  text_editor_code_execution_tool_result: serverBlock,
  tool_search_tool_result: serverBlock,
};

const INNER_TYPES = ["text", "image", "document", "search_result", "tool_reference"];
const USER_TYPES = ["text", "image", "document", "search_result", "tool_result", "container_upload"];
const ASSISTANT_TYPES = Object.keys(CHECKS).filter(
  (type) => !["tool_result", "image", "document", "tool_reference", "container_upload"].includes(type),
);

const checkBlock = (value: Json, path: string, allowed: readonly string[], where: string): void => {
  const block = expectObject(value, path);
  const type = expectString(block.type, at(path, "type"));
  const check = CHECKS[type];
  if (check === undefined) {
    throw invalid(
      path,
      `Input tag '${type}' found using 'type' does not match any of the expected tags: ${allowed.join(", ")}`,
    );
  }
  if (!allowed.includes(type)) throw invalid(path, `\`${type}\` blocks are not permitted in ${where}`);
  if (type.endsWith("thinking") && block.cache_control !== undefined) {
    throw invalid(at(path, "cache_control"), `cache_control cannot be set for \`${type}\` blocks`);
  }
  check(block, path);
};

const checkInner = (blocks: readonly Json[], path: string, allowed: readonly string[]): void => {
  for (const [index, block] of blocks.entries()) checkBlock(block, at(path, index), allowed, "this content");
};

/** Checks the blocks of one message's content. @throws ApiError 400 */
export const checkContent = (blocks: readonly Json[], path: string, role: "user" | "assistant"): void => {
  const allowed = role === "user" ? USER_TYPES : ASSISTANT_TYPES;
  for (const [index, block] of blocks.entries()) checkBlock(block, at(path, index), allowed, `\`${role}\` messages`);
};
