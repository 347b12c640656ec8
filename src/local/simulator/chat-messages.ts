/** What the messages of a chat completion must hold to, and the same messages as blocks, which is what the small agent reads. */
import { at, expectArray, expectKeys, expectObject, expectOneOf, expectPattern, expectString } from "./check.ts";
import { ApiError, invalid } from "./errors.ts";
import type { Json, JsonObject } from "./json.ts";
import { isObject } from "./json.ts";
import type { SimMessage } from "./validate-messages.ts";

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
/** Longest id of a call that OpenAI takes. */
const MAX_ID = 40;

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly blocks: readonly JsonObject[];
  readonly toolCallIds: readonly string[];
  readonly answers?: string;
}

const expectFilled = (text: string, path: string): string => {
  if (text === "") throw invalid(path, "content must not be empty");
  return text;
};

/** A URL of an image or the data of a file, as a block that is counted like one of the Messages API. */
const media = (type: "image" | "document", url: string): JsonObject => {
  const [, media_type, data] = /^data:([^;,]+);base64,(.+)$/s.exec(url) ?? [];
  const source = data === undefined ? { type: "url", url } : { type: "base64", media_type: media_type ?? "", data };
  return { type, source };
};

const checkPart = (value: Json, path: string, allowed: readonly string[]): JsonObject => {
  const part = expectObject(value, path);
  const type = expectOneOf(part.type, at(path, "type"), allowed);
  if (type === "text") {
    expectKeys(part, path, ["type", "text"]);
    return { type: "text", text: expectFilled(expectString(part.text, at(path, "text")), at(path, "text")) };
  }
  expectKeys(part, path, ["type", type]);
  const inner = expectObject(part[type], at(path, type));
  if (type === "image_url") {
    expectKeys(inner, at(path, type), ["url", "detail"]);
    return media("image", expectPattern(inner.url, `${path}.image_url.url`, /^(?:https?:\/\/|data:image\/)/));
  }
  expectKeys(inner, at(path, type), ["filename", "file_data"]);
  return media("document", expectPattern(inner.file_data, `${path}.file.file_data`, /^data:application\/pdf;base64,/));
};

const checkContent = (value: Json | undefined, path: string, allowed: readonly string[]): readonly JsonObject[] => {
  if (typeof value === "string") return [{ type: "text", text: expectFilled(value, path) }];
  const parts = expectArray(value, path);
  if (parts.length === 0) throw invalid(path, "content must not be empty");
  return parts.map((part, index) => checkPart(part, `${path}.${index}`, allowed));
};

const checkCall = (value: Json, path: string): JsonObject => {
  const call = expectObject(value, path);
  expectKeys(call, path, ["id", "type", "function"]);
  expectOneOf(call.type, at(path, "type"), ["function"]);
  const id = expectFilled(expectString(call.id, at(path, "id")), at(path, "id"));
  if (id.length > MAX_ID) {
    const words = `Expected a string with maximum length ${MAX_ID}, but got a string with length ${id.length} instead.`;
    throw new ApiError(400, `Invalid '${path}.id': string too long. ${words}`);
  }
  const made = expectObject(call.function, at(path, "function"));
  expectKeys(made, at(path, "function"), ["name", "arguments"]);
  const name = expectPattern(made.name, `${path}.function.name`, TOOL_NAME);
  const written = expectString(made.arguments, `${path}.function.arguments`);
  let input: Json;
  try {
    input = JSON.parse(written) as Json;
  } catch {
    throw invalid(`${path}.function.arguments`, "is no JSON");
  }
  if (!isObject(input)) throw invalid(`${path}.function.arguments`, "must be a JSON object");
  return { type: "tool_use", id, name, input };
};

const checkAssistant = (message: JsonObject, path: string): ChatMessage => {
  expectKeys(message, path, ["role", "content", "tool_calls", "reasoning_content"]);
  const given = message.tool_calls === undefined ? [] : expectArray(message.tool_calls, at(path, "tool_calls"));
  if (message.tool_calls !== undefined && given.length === 0) throw invalid(at(path, "tool_calls"), "[] is too short");
  const calls = given.map((call, index) => checkCall(call, `${path}.tool_calls.${index}`));
  const isSilent = message.content === null || message.content === undefined;
  if (isSilent && calls.length === 0) throw invalid(at(path, "content"), "is needed where there are no tool_calls");
  const said = isSilent ? [] : checkContent(message.content, at(path, "content"), ["text"]);
  const reasoning = message.reasoning_content;
  if (reasoning !== undefined) {
    expectFilled(expectString(reasoning, at(path, "reasoning_content")), at(path, "reasoning_content"));
    // As DeepSeek has it: with its calls it belongs to the exchange, behind an answer it is refused.
    if (calls.length === 0) throw invalid(at(path, "reasoning_content"), "may only stand beside tool_calls");
  }
  const thought = typeof reasoning === "string" ? [{ type: "thinking", thinking: reasoning }] : [];
  return {
    role: "assistant",
    blocks: [...thought, ...said, ...calls],
    toolCallIds: calls.map(({ id }) => String(id)),
  };
};

const checkMessage = (value: Json, path: string): ChatMessage => {
  const message = expectObject(value, path);
  const role = expectOneOf(message.role, at(path, "role"), ["system", "user", "assistant", "tool"]);
  switch (role) {
    case "assistant":
      return checkAssistant(message, path);
    case "tool": {
      expectKeys(message, path, ["role", "content", "tool_call_id"]);
      const answers = expectString(message.tool_call_id, at(path, "tool_call_id"));
      const content = message.content === "" ? [] : checkContent(message.content, at(path, "content"), ["text"]);
      return { role, blocks: [{ type: "tool_result", tool_use_id: answers, content }], toolCallIds: [], answers };
    }
    default: {
      expectKeys(message, path, ["role", "content"]);
      const allowed = role === "user" ? ["text", "image_url", "file"] : ["text"];
      const blocks = checkContent(message.content, at(path, "content"), allowed);
      return { role: role === "user" ? "user" : "system", blocks, toolCallIds: [] };
    }
  }
};

const refuse = (message: string): ApiError => new ApiError(400, message);

/** Every call is answered by a tool's message right behind it, every tool's message answers such a call, once. */
const checkPairs = (messages: readonly ChatMessage[]): void => {
  let open: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.answers !== undefined) {
      if (!open.includes(message.answers))
        throw refuse(
          `Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. (messages.${index})`,
        );
      open = open.filter((id) => id !== message.answers);
      continue;
    }
    if (open.length > 0) break;
    if (new Set(message.toolCallIds).size < message.toolCallIds.length)
      throw invalid(`messages.${index}.tool_calls`, "ids must be unique");
    open = [...message.toolCallIds];
  }
  if (open.length > 0)
    throw refuse(
      `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.join(", ")}`,
    );
};

/** Checks `messages`. @throws ApiError 400 */
export const checkChatMessages = (value: Json | undefined): readonly ChatMessage[] => {
  const list = expectArray(value, "messages");
  if (list.length === 0) throw invalid("messages", "[] is too short");
  const messages = list.map((message, index) => checkMessage(message, `messages.${index}`));
  checkPairs(messages);
  const last = messages.at(-1);
  if (last?.role !== "user" && last?.role !== "tool")
    throw invalid(`messages.${messages.length - 1}`, "the last message must be a user's or a tool's");
  return messages;
};

/** The messages as the Messages API has them: results and what the user says behind them stand in one. */
export const asBlocks = (messages: readonly ChatMessage[]): readonly SimMessage[] => {
  const joined: { role: "user" | "assistant"; blocks: JsonObject[] }[] = [];
  for (const { role, blocks } of messages) {
    if (role === "system") continue;
    const as = role === "assistant" ? "assistant" : "user";
    const last = joined.at(-1);
    if (last?.role === as && as === "user") last.blocks.push(...blocks);
    else joined.push({ role: as, blocks: [...blocks] });
  }
  return joined;
};

/** The system messages' text. */
export const systemText = (messages: readonly ChatMessage[]): string =>
  messages
    .filter(({ role }) => role === "system")
    .flatMap(({ blocks }) => blocks.map((block) => String(block.text)))
    .join("\n\n");

export const checkChatTools = (value: Json | undefined): readonly JsonObject[] => {
  if (value === undefined) return [];
  const given = expectArray(value, "tools");
  if (given.length === 0) throw invalid("tools", "[] is too short");
  const tools = given.map((each, index): JsonObject => {
    const path = `tools.${index}`;
    const tool = expectObject(each, path);
    expectKeys(tool, path, ["type", "function"]);
    expectOneOf(tool.type, at(path, "type"), ["function"]);
    const made = expectObject(tool.function, at(path, "function"));
    expectKeys(made, at(path, "function"), ["name", "description", "parameters", "strict"]);
    const name = expectPattern(made.name, `${path}.function.name`, TOOL_NAME);
    if (made.description !== undefined) expectString(made.description, `${path}.function.description`);
    const schema = expectObject(made.parameters, `${path}.function.parameters`);
    expectOneOf(schema.type, `${path}.function.parameters.type`, ["object"]);
    return { name, description: made.description, input_schema: schema };
  });
  const names = tools.map((tool) => String(tool.name));
  const twice = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (twice >= 0) throw invalid(`tools.${twice}.function.name`, `found twice: ${names[twice]}`);
  return tools;
};
