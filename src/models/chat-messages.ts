/**
 * The messages of a view as chat completions take them: the one place where stored blocks become messages of that API. What was stored
 * is spliced in as it stands wherever there is a place for it (V9), and a message's conversion depends on that message alone, so that a
 * longer view begins with the bytes of a shorter one (V2).
 */
import { arrayElements, type Member, objectMembers } from "../protocol/json-text.ts";
import type { ContentText, SystemBlock, ViewMessage } from "../protocol/messages.ts";
import { wireCallId } from "./chat-call-ids.ts";

/** What a server's messages may hold beyond what every one takes. */
export interface ChatDialect {
  /** PDFs as `file` parts; else they are named. */
  readonly files: boolean;
  /** Takes its own reasoning back as `reasoning_content`; OpenAI itself has no such member. */
  readonly reasoning: boolean;
  /** The server's template counts roles (R8): nothing may stand beside a tool's result, and ids have nine letters and digits. */
  readonly strict: boolean;
}

interface Block {
  readonly type: string;
  /** A member's value as JSON text. */
  readonly raw: (key: string) => string | undefined;
}

const stringOf = (json: string | undefined): string => (json?.startsWith('"') === true ? String(JSON.parse(json)) : "");

const blockAt = (text: string, start: number): Block => {
  const members = objectMembers(text, start);
  const raw = (key: string): string | undefined => {
    const found: Member | undefined = members.findLast((member) => member.key === key);
    return found === undefined ? undefined : text.slice(found.start, found.end);
  };
  return { type: stringOf(raw("type")), raw };
};

const blocksOf = (content: ContentText): readonly Block[] =>
  arrayElements(content).map(({ start }) => blockAt(content, start));

const quoted = (value: string): string => JSON.stringify(value.toWellFormed());

/** Several texts as one JSON string; a single one stays the literal that it is. */
const joined = (literals: readonly string[], separator: string): string => {
  const [only, ...more] = literals;
  if (only === undefined) return '""';
  return more.length === 0 ? only : quoted(literals.map(stringOf).join(separator));
};

/** Stands in for an answer that has nothing to send: an empty message is refused by some servers. */
const NO_TEXT = '"(no text)"';

const sourceOf = (block: Block): Block => blockAt(block.raw("source") ?? "{}", 0);

const label = (block: Block): string => {
  const mediaType = stringOf(sourceOf(block).raw("media_type"));
  return `[${block.type}${mediaType === "" ? "" : `: ${mediaType}`}, not shown]`;
};

const textPart = (literal: string): string => `{"type":"text","text":${literal}}`;

/** A data URL without a copy of the base64 text beside it: it holds nothing that JSON escapes. */
const dataUrl = (source: Block): string =>
  `"data:${quoted(stringOf(source.raw("media_type"))).slice(1, -1)};base64,${(source.raw("data") ?? '""').slice(1)}`;

/** An image or a document as a content part; what the server cannot be shown is named. */
const mediaPart = (block: Block, { files }: ChatDialect): string => {
  const source = sourceOf(block);
  const kind = stringOf(source.raw("type"));
  if (kind === "text") return textPart(source.raw("data") ?? '""');
  if (block.type === "image" && kind === "base64") return `{"type":"image_url","image_url":{"url":${dataUrl(source)}}}`;
  if (block.type === "image" && kind === "url")
    return `{"type":"image_url","image_url":{"url":${source.raw("url") ?? '""'}}}`;
  if (block.type === "document" && kind === "base64" && files) {
    const name = block.raw("title") ?? '"document.pdf"';
    return `{"type":"file","file":{"filename":${name},"file_data":${dataUrl(source)}}}`;
  }
  return textPart(quoted(label(block)));
};

/** A block that is neither text nor media, named so that its place is not empty: what another provider did by itself. */
const foreignText = (block: Block): string => {
  switch (block.type) {
    case "server_tool_use":
    case "mcp_tool_use":
      return quoted(`[${stringOf(block.raw("name"))} ${block.raw("input") ?? "{}"}]`);
    case "compaction":
      return block.raw("content") ?? '""';
    default:
      return quoted(`[${block.type}]`);
  }
};

const userPart = (block: Block, dialect: ChatDialect): string => {
  switch (block.type) {
    case "text":
      return textPart(block.raw("text") ?? '""');
    case "image":
    case "document":
      return mediaPart(block, dialect);
    default:
      return textPart(foreignText(block));
  }
};

/** Between the text blocks of one user message. */
const BETWEEN_TEXTS = "\n\n";

const userMessage = (parts: readonly string[], texts: readonly string[] | null): string =>
  `{"role":"user","content":${texts === null ? `[${parts.join(",")}]` : joined(texts, BETWEEN_TEXTS)}}`;

/** Opens the result of a call that failed: chat completions have no other place for it. */
const FAILED = "[The call failed]\n";

interface Result {
  readonly message: string;
  /** Parts that a tool's message has no place for. */
  readonly parts: readonly string[];
}

const resultOf = (block: Block, dialect: ChatDialect): Result => {
  const id = stringOf(block.raw("tool_use_id"));
  const content = block.raw("content") ?? '""';
  const isFailed = block.raw("is_error") === "true";
  const parts: string[] = [];
  const literals = content.startsWith("[")
    ? blocksOf(content).map((inner) => {
        if (inner.type === "text") return inner.raw("text") ?? '""';
        if (inner.type !== "image" || dialect.strict) return quoted(label(inner));
        parts.push(mediaPart(inner, dialect));
        return quoted("[image: shown after the results]");
      })
    : [content];
  const text = joined(literals, "\n");
  const said = isFailed ? quoted(`${FAILED}${stringOf(text)}`) : text;
  const opening =
    parts.length === 0 ? [] : [textPart(quoted(`Shown by the result of ${wireCallId(id, dialect.strict)}:`))];
  return {
    message: `{"role":"tool","tool_call_id":${quoted(wireCallId(id, dialect.strict))},"content":${said}}`,
    parts: [...opening, ...parts],
  };
};

const fromUser = (content: ContentText, dialect: ChatDialect): readonly string[] => {
  const blocks = blocksOf(content);
  const results = blocks.filter(({ type }) => type === "tool_result").map((block) => resultOf(block, dialect));
  const others = blocks.filter(({ type }) => type !== "tool_result");
  const parts = [...results.flatMap((result) => result.parts), ...others.map((block) => userPart(block, dialect))];
  // Text alone goes as text: not every template takes parts.
  const isPlain = parts.length === others.length && others.every(({ type }) => type === "text");
  const texts = isPlain ? others.map((block) => block.raw("text") ?? '""') : null;
  return [...results.map(({ message }) => message), ...(parts.length === 0 ? [] : [userMessage(parts, texts)])];
};

/** The input as it was streamed, as a JSON string: never read and written anew (V9). */
const callOf = (block: Block, dialect: ChatDialect): string => {
  const id = wireCallId(stringOf(block.raw("id")), dialect.strict);
  const input = block.raw("input") ?? "{}";
  return `{"id":${quoted(id)},"type":"function","function":{"name":${block.raw("name") ?? '""'},"arguments":${quoted(input)}}}`;
};

/** Whether a thinking block is a chat completions server's own: those are stored without a signature (V5). */
const isReasoning = (block: Block): boolean => block.type === "thinking" && stringOf(block.raw("signature")) === "";

const fromAssistant = (content: ContentText, dialect: ChatDialect): readonly string[] => {
  const blocks = blocksOf(content);
  const calls = blocks.filter(({ type }) => type === "tool_use").map((block) => callOf(block, dialect));
  const texts = blocks
    .filter(({ type }) => !["tool_use", "thinking", "redacted_thinking"].includes(type))
    .map((block) => (block.type === "text" ? (block.raw("text") ?? '""') : foreignText(block)));
  const said = texts.length > 0 ? joined(texts, "") : calls.length > 0 ? "null" : NO_TEXT;
  // Kept with its call, dropped elsewhere (V5): servers want it back while the exchange goes on and ignore or refuse it behind an answer.
  const reasoning =
    calls.length === 0 || !dialect.reasoning
      ? []
      : blocks.filter(isReasoning).map((block) => block.raw("thinking") ?? '""');
  const members = [
    '"role":"assistant"',
    `"content":${said}`,
    ...(reasoning.length === 0 ? [] : [`"reasoning_content":${joined(reasoning, "\n\n")}`]),
    ...(calls.length === 0 ? [] : [`"tool_calls":[${calls.join(",")}]`]),
  ];
  return [`{${members.join(",")}}`];
};

/**
 * One message of a view as messages of chat completions, each as JSON text: results become messages of the role `tool`, in front of what
 * else the message holds.
 * @param content with its media in place
 */
export const chatMessages = (
  message: Pick<ViewMessage, "role">,
  content: ContentText,
  dialect: ChatDialect,
): readonly string[] => (message.role === "user" ? fromUser(content, dialect) : fromAssistant(content, dialect));

/** The system blocks as one system message, since templates take one; none for blank ones. */
export const systemMessage = (blocks: readonly SystemBlock[]): readonly string[] => {
  const texts = blocks.map(({ text }) => text).filter((text) => text.trim() !== "");
  return texts.length === 0 ? [] : [`{"role":"system","content":${quoted(texts.join("\n\n"))}}`];
};
