/** What a list of messages must hold to: roles, content, and the pairing of tool calls and results. */
import type { SimModel } from "./catalogue.ts";
import { at, expectArray, expectKeys, expectObject, expectOneOf, expectText } from "./check.ts";
import { invalid } from "./errors.ts";
import type { Json, JsonObject } from "./json.ts";
import { isArray, isObject } from "./json.ts";
import { checkContent } from "./validate-blocks.ts";

export interface SimMessage {
  readonly role: "user" | "assistant";
  readonly blocks: readonly JsonObject[];
}

const checkMessage = (value: Json, path: string, isLast: boolean): SimMessage => {
  const message = expectObject(value, path);
  const role = expectOneOf(message.role, at(path, "role"), ["user", "assistant"]) === "user" ? "user" : "assistant";
  expectKeys(message, path, ["role", "content"]);
  const content = message.content;
  const contentPath = at(path, "content");
  const mayBeEmpty = isLast && role === "assistant";
  if (content === "" || (isArray(content) && content.length === 0)) {
    if (mayBeEmpty) return { role, blocks: [] };
    throw invalid(
      contentPath,
      "all messages must have non-empty content except for the optional final assistant message",
    );
  }
  if (typeof content === "string") {
    return { role, blocks: [{ type: "text", text: expectText(content, contentPath) }] };
  }
  const blocks = expectArray(content, contentPath);
  checkContent(blocks, contentPath, role);
  return { role, blocks: blocks.filter(isObject) };
};

const idsOf = (message: SimMessage | undefined, type: string, key: string): readonly string[] =>
  message?.blocks.filter((block) => block.type === type).map((block) => String(block[key])) ?? [];

/** Every result answers a call of the message before it and stands before any other block; every call is answered. */
const checkPairs = (messages: readonly SimMessage[]): void => {
  const seen = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const path = `messages.${index}`;
    const before = messages[index - 1];
    const asked = before?.role === "assistant" ? idsOf(before, "tool_use", "id") : [];
    const answered = new Set<string>();
    let otherSeen = false;
    for (const [position, block] of message.blocks.entries()) {
      const blockPath = `${path}.content.${position}`;
      if (block.type === "tool_use" || block.type === "server_tool_use") {
        const id = String(block.id);
        if (seen.has(id)) throw invalid(`${blockPath}.id`, `\`tool_use\` ids must be unique, found twice: ${id}`);
        seen.add(id);
      }
      if (block.type !== "tool_result") {
        otherSeen = true;
        continue;
      }
      const id = String(block.tool_use_id);
      if (!asked.includes(id)) {
        throw invalid(
          blockPath,
          `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
        );
      }
      if (answered.has(id)) {
        throw invalid(
          blockPath,
          `each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
        );
      }
      if (otherSeen) {
        throw invalid(blockPath, `\`tool_result\` blocks must come before any other content, found after it: ${id}`);
      }
      answered.add(id);
    }
    const missing = asked.filter((id) => !answered.has(id));
    if (missing.length > 0) throw unanswered(index - 1, missing);
  }
  const open = idsOf(messages.at(-1), "tool_use", "id");
  if (open.length > 0) throw unanswered(messages.length - 1, open);
};

const unanswered = (index: number, ids: readonly string[]) =>
  invalid(
    `messages.${index}`,
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );

/** A provider's own tool call has its result in the same run of assistant messages, unless that run is still going on. */
const checkServerCalls = (messages: readonly SimMessage[]): void => {
  const lastUser = messages.findLastIndex((message) => message.role === "user");
  for (const [index, message] of messages.entries()) {
    if (message.role === "user" || index > lastUser) continue;
    const end = messages.findIndex((other, at) => at > index && other.role === "user");
    const results = messages.slice(index, end).flatMap((one) => one.blocks.map((block) => block.tool_use_id));
    for (const [position, block] of message.blocks.entries()) {
      if (block.type !== "server_tool_use" || results.includes(block.id)) continue;
      const name = String(block.name);
      throw invalid(
        `messages.${index}.content.${position}`,
        `\`${name}\` tool use with id \`${String(block.id)}\` was found without a corresponding \`${name}_tool_result\` block`,
      );
    }
  }
};

/** The last message is a user's, or an assistant's that paused in a server tool, or (older models) a prefill. */
const checkLast = (messages: readonly SimMessage[], model: SimModel): void => {
  const last = messages.at(-1);
  if (last?.role !== "assistant") return;
  if (last.blocks.some((block) => block.type === "server_tool_use")) return;
  const path = `messages.${messages.length - 1}`;
  if (!model.allowsPrefill) {
    throw invalid(
      path,
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    );
  }
  const end = last.blocks.at(-1);
  if (end?.type === "text" && /\s$/.test(String(end.text))) {
    throw invalid(`${path}.content`, "final assistant content cannot end with trailing whitespace");
  }
};

/** Checks `messages`. @returns them with string content as one text block @throws ApiError 400 */
export const checkMessages = (value: Json | undefined, model: SimModel): readonly SimMessage[] => {
  const list = expectArray(value, "messages");
  if (list.length === 0) throw invalid("messages", "at least one message is required");
  const messages = list.map((message, index) => checkMessage(message, `messages.${index}`, index === list.length - 1));
  if (messages[0]?.role !== "user") throw invalid("messages.0.role", "first message must use the `user` role");
  checkPairs(messages);
  checkServerCalls(messages);
  checkLast(messages, model);
  return messages;
};
