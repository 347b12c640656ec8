/**
 * Imported rows as the provider takes them. The log keeps them as they came; what is bound to another system is left out or
 * rewritten when they are sent: thinking (V5), cache marks, blocks that only the system that made them can send back.
 */
import { arrayElements, objectMembers } from "../protocol/json-text.ts";

/** The blocks of a content text, each as the text it stands in. */
export const blockTexts = (content: string): readonly string[] =>
  arrayElements(content).map(({ start, end }) => content.slice(start, end));

/** A content text of these blocks. */
export const joinBlocks = (blocks: readonly string[]): string => `[${blocks.join(",")}]`;

/** A member's value as JSON text, or undefined. */
const memberText = (object: string, key: string): string | undefined => {
  const member = objectMembers(object).find((each) => each.key === key);
  return member === undefined ? undefined : object.slice(member.start, member.end);
};

/** The `type` of a block's text. */
export const blockType = (block: string): string => {
  const type = memberText(block, "type");
  return type === undefined ? "" : String(JSON.parse(type));
};

/** Removes one member of an object's text, with the comma that belongs to it. */
const withoutMember = (object: string, key: string): string => {
  const members = objectMembers(object);
  const at = members.findIndex((member) => member.key === key);
  const member = members[at];
  if (member === undefined) return object;
  const next = members[at + 1];
  const before = members[at - 1];
  if (next !== undefined) return object.slice(0, member.keyStart) + object.slice(next.keyStart);
  return object.slice(0, before?.end ?? member.keyStart) + object.slice(member.end);
};

/** Replaces a member's value by another JSON text. */
const withMember = (object: string, key: string, replace: (value: string) => string): string => {
  const member = objectMembers(object).find((each) => each.key === key);
  if (member === undefined) return object;
  return object.slice(0, member.start) + replace(object.slice(member.start, member.end)) + object.slice(member.end);
};

/** An image as MCP servers give it, `{type, data, mimeType}`, as a block of the Messages API. */
const fromMcp = (block: string): string => {
  const [data, mimeType] = [memberText(block, "data"), memberText(block, "mimeType")];
  if (data === undefined || mimeType === undefined) return block;
  return `{"type":"image","source":{"type":"base64","media_type":${mimeType},"data":${data}}}`;
};

/** A summary that another API made of what stood before it: its text, since only that API takes the block back. */
const fromCompaction = (block: string): string => {
  const content = memberText(block, "content");
  return content?.startsWith('"') === true && content !== '""' ? `{"type":"text","text":${content}}` : "";
};

const portableBlock = (block: string): string => {
  switch (blockType(block)) {
    case "image":
      return fromMcp(block);
    case "compaction":
      return fromCompaction(block);
    case "tool_result":
      return withMember(block, "content", (content) =>
        content.startsWith("[")
          ? joinBlocks(blockTexts(content).map((each) => portableBlock(withoutMember(each, "cache_control"))))
          : content,
      );
    default:
      return block;
  }
};

/** Texts without which there is nothing to rewrite; looked for first, so that most rows pass unread. */
const SIGNS = ['"cache_control"', '"mimeType"', '"compaction"'];

/** The content of an imported row as this provider takes it. */
export const portable = (content: string): string => {
  if (!SIGNS.some((sign) => content.includes(sign))) return content;
  return joinBlocks(
    blockTexts(content)
      .map((block) => portableBlock(withoutMember(block, "cache_control")))
      .filter((block) => block !== ""),
  );
};
