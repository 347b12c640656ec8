/**
 * A page of a transcript in the format of chat completions, converted to the Messages API. Texts keep their JSON literal and tool
 * arguments the text that the model wrote, as far as there is a place for them (V9).
 */
import {
  arrayElements,
  jsonDepth,
  objectMembers,
  RawJson,
  repairSurrogates,
  stringifyWith,
} from "../../protocol/json-text.ts";
import type { Role } from "../../protocol/messages.ts";
import { TOOL_NAME } from "./blocks.ts";
import {
  type DraftCall,
  type DraftMessage,
  type DraftResult,
  expected,
  isObject,
  type JsonObject,
  requireString,
  requireText,
} from "./draft.ts";

/** One converted piece of a message: a block as JSON text, and what pairing needs to know of it. */
interface Piece {
  readonly block: string;
  readonly text?: string;
  readonly call?: DraftCall;
  readonly result?: DraftResult;
}

/** A parsed value together with the place of its text. */
interface Source {
  readonly value: JsonObject;
  readonly body: string;
  readonly start: number;
  readonly path: string;
}

interface Turn {
  readonly kind: "user" | "assistant" | "results";
  readonly path: string;
  readonly pieces: readonly Piece[];
}

/** JSON nested deeper than this, inside the text of tool arguments, is kept as text. */
const MAX_ARGUMENTS_DEPTH = 100;

const memberStart = (source: Source, key: string): number =>
  objectMembers(source.body, source.start).findLast((member) => member.key === key)?.start ?? source.start;

/** The text of a member as it stands in the request. */
const literal = (source: Source, key: string): RawJson => {
  const member = objectMembers(source.body, source.start).findLast((each) => each.key === key);
  return new RawJson(member === undefined ? "null" : source.body.slice(member.start, member.end));
};

/** The items of a member that is an array, each with its place. */
const items = (source: Source, key: string, what: string): readonly Source[] => {
  const values = source.value[key];
  if (!Array.isArray(values)) return [];
  const spans = arrayElements(source.body, memberStart(source, key));
  return values.map((value: unknown, index) => {
    const path = `${source.path}.${key}[${index}]`;
    if (!isObject(value)) throw expected(path, what, value);
    return { value, body: source.body, start: spans[index]?.start ?? source.start, path };
  });
};

/** FNV-1a over UTF-16 units: tells apart ids that become equal when their odd characters are replaced. */
const fingerprint = (text: string): string => {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
};

/**
 * An id that the Messages API takes. One that it takes already stays; the same id always becomes the same, so that a call and its
 * result meet again over pages.
 */
export const toolCallId = (id: string): string =>
  /^[A-Za-z0-9_-]+$/.test(id) ? id : `${id.replace(/[^A-Za-z0-9_-]/g, "_")}_${fingerprint(id)}`;

const textPiece = (text: string, raw: RawJson): Piece => ({ block: stringifyWith({ type: "text", text: raw }), text });

const DATA_URL = /^data:([a-z]+\/[a-z0-9.+-]+);base64,/i;

/** `type` and `source` of a media block from a URL, which may hold the data itself. */
const mediaBlock = (url: string, path: string): Piece => {
  const [head, mediaType] = DATA_URL.exec(url) ?? [];
  if (head === undefined || mediaType === undefined) {
    if (!/^https?:\/\//i.test(url)) throw expected(path, "an http(s) URL or a base64 data URL", url);
    return { block: stringifyWith({ type: "image", source: { type: "url", url } }) };
  }
  const media_type = mediaType.toLowerCase();
  const type = media_type.startsWith("image/") ? "image" : "document";
  if (type === "document" && media_type !== "application/pdf") throw expected(path, "an image or a PDF", media_type);
  return { block: stringifyWith({ type, source: { type: "base64", media_type, data: url.slice(head.length) } }) };
};

const userPart = (part: Source): Piece => {
  const { value, path } = part;
  switch (value.type) {
    case "text":
      return textPiece(requireText(value.text, `${path}.text`), literal(part, "text"));
    case "image_url": {
      if (!isObject(value.image_url)) throw expected(`${path}.image_url`, "an object", value.image_url);
      return mediaBlock(requireString(value.image_url, "url", `${path}.image_url`), `${path}.image_url.url`);
    }
    case "file": {
      if (!isObject(value.file)) throw expected(`${path}.file`, "an object", value.file);
      return mediaBlock(requireString(value.file, "file_data", `${path}.file`), `${path}.file.file_data`);
    }
    default:
      throw expected(`${path}.type`, "one of text, image_url, file", value.type);
  }
};

/** Text of an assistant or a tool. Blank text is no content there: it stands beside tool calls in many transcripts. */
const textPart = (part: Source): readonly Piece[] => {
  const { value, path } = part;
  if (value.type !== "text" && value.type !== "refusal") throw expected(`${path}.type`, "text or refusal", value.type);
  const text = requireString(value, value.type, path);
  return text.trim() === "" ? [] : [textPiece(text, literal(part, value.type))];
};

const userTurn = (message: Source): Turn => {
  const { content } = message.value;
  const path = `${message.path}.content`;
  if (typeof content === "string") {
    return {
      kind: "user",
      path: message.path,
      pieces: [textPiece(requireText(content, path), literal(message, "content"))],
    };
  }
  const pieces = items(message, "content", "a content part").map(userPart);
  if (pieces.length === 0) throw expected(path, "a text or an array of at least one content part", content);
  return { kind: "user", path: message.path, pieces };
};

/** The input of a call. What is no JSON object is kept as text, as it is when a model streams it so. */
const argumentsInput = (text: string): RawJson => {
  const json = text.trim() === "" ? "{}" : text.trim();
  const invalid = new RawJson(stringifyWith({ invalid_json: text }));
  if (jsonDepth(json) > MAX_ARGUMENTS_DEPTH) return invalid;
  try {
    return isObject(JSON.parse(json)) ? new RawJson(json) : invalid;
  } catch {
    return invalid;
  }
};

const callPiece = (call: Source): Piece => {
  const { value, path } = call;
  if (value.type !== undefined && value.type !== "function") throw expected(`${path}.type`, "function", value.type);
  const given = requireString(value, "id", path);
  if (given === "") throw expected(`${path}.id`, "an id", given);
  if (!isObject(value.function)) throw expected(`${path}.function`, "an object", value.function);
  const target: Source = {
    ...call,
    value: value.function,
    start: memberStart(call, "function"),
    path: `${path}.function`,
  };
  const name = requireString(value.function, "name", target.path);
  if (!TOOL_NAME.test(name)) {
    throw expected(`${target.path}.name`, "a name of 1 to 128 of the characters A-Z, a-z, 0-9, _ and -", name);
  }
  const { arguments: args } = value.function;
  if (typeof args !== "string" && !isObject(args))
    throw expected(`${target.path}.arguments`, "JSON text of an object", args);
  const input = typeof args === "string" ? argumentsInput(args) : literal(target, "arguments");
  const id = toolCallId(given);
  return { block: stringifyWith({ type: "tool_use", id, name, input }), call: { id, name, path: `${path}.id` } };
};

const assistantTurn = (message: Source): Turn => {
  const { content, refusal, tool_calls } = message.value;
  const path = `${message.path}.content`;
  if (content != null && typeof content !== "string" && !Array.isArray(content)) {
    throw expected(path, "a text, an array of content parts or null", content);
  }
  if (message.value.function_call != null) {
    throw expected(
      `${message.path}.function_call`,
      "tool_calls instead, and results with the role tool",
      message.value.function_call,
    );
  }
  const pieces = [
    ...(typeof content === "string" && content.trim() !== "" ? [textPiece(content, literal(message, "content"))] : []),
    ...items(message, "content", "a content part").flatMap(textPart),
    ...(typeof refusal === "string" && refusal.trim() !== "" ? [textPiece(refusal, literal(message, "refusal"))] : []),
  ];
  if (tool_calls != null && !Array.isArray(tool_calls))
    throw expected(`${message.path}.tool_calls`, "an array", tool_calls);
  pieces.push(...items(message, "tool_calls", "a tool call").map(callPiece));
  if (pieces.length === 0) throw expected(path, "a text that is not blank, or tool_calls beside it", content);
  return { kind: "assistant", path: message.path, pieces };
};

const resultTurn = (message: Source): Turn => {
  const { content } = message.value;
  const given = requireString(message.value, "tool_call_id", message.path);
  if (content !== undefined && typeof content !== "string" && !Array.isArray(content)) {
    throw expected(`${message.path}.content`, "a text or an array of text parts", content);
  }
  const parts = items(message, "content", "a content part").flatMap(textPart);
  const blocks = parts.map(({ block }) => block).join(",");
  const listed = blocks === "" ? "" : new RawJson(`[${blocks}]`);
  const answer = typeof content === "string" ? literal(message, "content") : listed;
  const id = toolCallId(given);
  const result = { id, path: `${message.path}.tool_call_id` };
  const block = stringifyWith({ type: "tool_result", tool_use_id: id, content: answer });
  return { kind: "results", path: message.path, pieces: [{ block, result }] };
};

const readTurn = (message: Source): Turn => {
  const { role } = message.value;
  switch (role) {
    case "user":
      return userTurn(message);
    case "assistant":
      return assistantTurn(message);
    case "tool":
      return resultTurn(message);
    case "system":
    case "developer":
      throw expected(
        `${message.path}.role`,
        "user, assistant or tool (set the system prompt as the session's own `system` and leave this message out)",
        role,
      );
    default:
      throw expected(`${message.path}.role`, "user, assistant or tool", role);
  }
};

/** Neighbours that the Messages API wants in one message: the results of a batch, and what an assistant said in a row. */
const join = (turns: readonly Turn[]): readonly Turn[] => {
  const joined: { kind: Turn["kind"]; path: string; pieces: Piece[] }[] = [];
  for (const { kind, path, pieces } of turns) {
    const last = joined.at(-1);
    if (last !== undefined && last.kind === kind && kind !== "user") last.pieces.push(...pieces);
    else joined.push({ kind, path, pieces: [...pieces] });
  }
  return joined;
};

const toDraft = ({ kind, path, pieces }: Turn): DraftMessage => {
  const raw = `[${pieces.map(({ block }) => block).join(",")}]`;
  const content = repairSurrogates(raw);
  const texts = pieces.map(({ text }) => text).filter((text) => text !== undefined);
  const role: Role = kind === "assistant" ? "assistant" : "user";
  return {
    role,
    content,
    calls: pieces.map(({ call }) => call).filter((call) => call !== undefined),
    results: pieces.map(({ result }) => result).filter((result) => result !== undefined),
    texts: texts.length === pieces.length ? texts : null,
    path,
    repaired: content !== raw,
  };
};

/**
 * Reads messages of chat completions. The results of a batch become one message, and so do neighbouring messages of the assistant;
 * system messages are refused, since the system prompt is a setting of the session. Fields that have no place in the Messages API
 * (`name`, `reasoning_content`, ...) are passed over.
 * @param messages the parsed array
 * @param body the text that it was parsed from
 * @param start where the array starts in that text
 * @throws TranscriptError
 */
export const readChatCompletions = (
  messages: readonly unknown[],
  body: string,
  start: number,
): readonly DraftMessage[] => {
  const spans = arrayElements(body, start);
  const turns = messages.map((value, index) => {
    const path = `messages[${index}]`;
    if (!isObject(value)) throw expected(path, "a message", value);
    return readTurn({ value, body, start: spans[index]?.start ?? start, path });
  });
  return join(turns).map(toDraft);
};
