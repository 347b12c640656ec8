/** The content of a message as Markdown: every text of it in full, media by reference. Reads the stored JSON text, piece by piece (V9). */
import { arrayElements, objectMembers, type Span } from "../protocol/json-text.ts";
import { fenced, fencedJson, inLine } from "./history-fence.ts";
import { formatSize } from "./text-cut.ts";

/** What the text of a block refers to. */
export interface BlockContext {
  readonly seq: number;
  /** The tool of a call by its id, for results; calls are added as they are met. */
  readonly toolNames: Map<string, string>;
  /** The size of a payload that was taken out of the row (V10), where it is known. */
  readonly mediaSizeBytes: number | undefined;
  /** How many blocks the block is inside of. */
  readonly depth: number;
}

export interface RenderedBlock {
  /** Markdown; ends in a newline. */
  readonly markdown: string;
  /** What an index says of it: one short text, not yet cut or cleaned. */
  readonly words: string;
  /** The tool that it calls. */
  readonly calls?: string;
}

type Fields = ReadonlyMap<string, Span & { readonly keyStart: number }>;

const REFERENCE = "hango:media/sha256-";
/** Enough of a text for an index line. */
const WORDS = 400;
/** A document's blocks in a result in a message: what nests deeper is shown as JSON, since every level is scanned again. */
const MAX_DEPTH = 4;

/** The members of the object at a place by key, of a repeated key the last; empty where there is no object. */
const fieldsAt = (json: string, span: Span | undefined): Fields =>
  span === undefined || json[span.start] !== "{"
    ? new Map()
    : new Map(objectMembers(json, span.start).map((member) => [member.key, member]));

const rawAt = (json: string, span: Span | undefined): string =>
  span === undefined ? "" : json.slice(span.start, span.end);

/** The string at a place, or undefined where there is none. */
const textAt = (json: string, span: Span | undefined): string | undefined =>
  span !== undefined && json[span.start] === '"' ? String(JSON.parse(rawAt(json, span))) : undefined;

/** Members that hold nothing to read: marks for the cache, proofs for the provider. */
const UNREAD: readonly string[] = ["type", "cache_control", "signature"];

/** What a block holds beside what was shown of it. */
const others = (json: string, fields: Fields, shown: readonly string[]): string => {
  const rest = [...fields].filter(([key]) => !shown.includes(key) && !UNREAD.includes(key));
  if (rest.length === 0) return "";
  return `With it:\n${fencedJson(`{${rest.map(([, { keyStart, end }]) => json.slice(keyStart, end)).join(",")}}`)}`;
};

/** Size and place of a payload: the hash that the media store has it under, or the message that holds it (V10). */
const payloadText = (base64: string, { seq, mediaSizeBytes }: BlockContext): string => {
  if (base64.startsWith(REFERENCE)) {
    const size = mediaSizeBytes === undefined ? "" : `${formatSize(mediaSizeBytes)}, `;
    return `${size}${inLine(base64.slice("hango:media/".length))}`;
  }
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  const sizeBytes = Math.max(0, Math.floor((base64.length * 3) / 4) - padding);
  return `${formatSize(sizeBytes)}, kept in message ${seq} of the log`;
};

/** JSON of a block that is not known here, payloads by reference. */
const unknownJson = (json: string, context: BlockContext): string =>
  fencedJson(
    json.includes('"base64"')
      ? json.replace(
          /"data"\s*:\s*"([A-Za-z0-9+/]{256,}={0,2})"/g,
          (_, data: string) => `"data":"[${payloadText(data, context)}]"`,
        )
      : json,
  );

const unknownBlock = (json: string, span: Span, type: string, context: BlockContext): RenderedBlock => ({
  markdown: `### Block of type ${inLine(type)}\n\n${unknownJson(rawAt(json, span), context)}`,
  words: `[${type}]`,
});

const mediaBlock = (json: string, fields: Fields, type: string, context: BlockContext): RenderedBlock => {
  const sourceSpan = fields.get("source");
  const source = fieldsAt(json, sourceSpan);
  const mediaType = textAt(json, source.get("media_type"));
  const label = mediaType === undefined ? type : `${type} ${inLine(mediaType)}`;
  const data = source.get("data");
  const rest = others(json, fields, ["source"]);
  const shown = (line: string, after = ""): RenderedBlock => ({
    markdown: [`[${line}]\n`, ...(after + rest === "" ? [] : [after + rest])].join("\n"),
    words: `[${label}]`,
  });
  const sourceType = textAt(json, source.get("type"));
  if (sourceType === "base64" && data !== undefined && json[data.start] === '"') {
    return shown(`${label}, ${payloadText(json.slice(data.start + 1, data.end - 1), context)}`);
  }
  const dataText = sourceType === "text" ? textAt(json, data) : undefined;
  if (dataText !== undefined) return shown(label, fenced(dataText));
  const content = source.get("content");
  if (sourceType === "content" && content !== undefined) {
    return shown(
      label,
      contentAt(json, content, context)
        .map(({ markdown }) => markdown)
        .join("\n"),
    );
  }
  return shown(label, sourceSpan === undefined ? "" : unknownJson(rawAt(json, sourceSpan), context));
};

const callBlock = (json: string, fields: Fields, context: BlockContext): RenderedBlock => {
  const name = textAt(json, fields.get("name")) ?? "?";
  const id = textAt(json, fields.get("id")) ?? "?";
  context.toolNames.set(id, name);
  const input = fields.get("input");
  return {
    markdown: `### Call of ${inLine(name)} (${inLine(id)})\n\n${input === undefined ? "" : fencedJson(rawAt(json, input))}${others(json, fields, ["id", "name", "input"])}`,
    words: `[calls ${name}]`,
    calls: name,
  };
};

const resultBlock = (json: string, fields: Fields, context: BlockContext): RenderedBlock => {
  const id = textAt(json, fields.get("tool_use_id")) ?? "?";
  const name = context.toolNames.get(id) ?? "a call before these messages";
  const status = rawAt(json, fields.get("is_error")) === "true" ? "error" : "ok";
  const content = contentAt(json, fields.get("content"), context);
  const body = content.length === 0 ? "(empty)\n" : content.map(({ markdown }) => markdown).join("\n");
  return {
    markdown: `### Result of ${inLine(name)} (${inLine(id)}): ${status}\n\n${body}${others(json, fields, ["tool_use_id", "is_error", "content"])}`,
    words: [`[${name} ${status}]`, ...content.map(({ words }) => words)].join(" ").slice(0, WORDS),
  };
};

/** Content as a string, a list of blocks, or one block. */
const contentAt = (json: string, span: Span | undefined, context: BlockContext): readonly RenderedBlock[] => {
  if (span === undefined) return [];
  const text = textAt(json, span);
  if (text !== undefined) return text === "" ? [] : [{ markdown: fenced(text), words: text.slice(0, WORDS) }];
  const inside = { ...context, depth: context.depth + 1 };
  const blocks = json[span.start] === "[" ? arrayElements(json, span.start) : [span];
  return blocks.map((block) => renderBlock(json, block, inside));
};

const blockKind = (
  json: string,
  type: string,
  fields: Fields,
): "text" | "thinking" | "redacted" | "call" | "result" | "media" | "unknown" => {
  const holdsText = (key: string): boolean => json[fields.get(key)?.start ?? -1] === '"';
  if (type === "text" && holdsText("text")) return "text";
  if (type === "thinking" && holdsText("thinking")) return "thinking";
  if (type === "redacted_thinking") return "redacted";
  if (fields.has("tool_use_id")) return "result";
  if (fields.has("name") && fields.has("input")) return "call";
  return type === "image" || type === "document" ? "media" : "unknown";
};

const renderBlock = (json: string, span: Span, context: BlockContext): RenderedBlock => {
  const fields = fieldsAt(json, span);
  const type = textAt(json, fields.get("type")) ?? "?";
  const kind = context.depth > MAX_DEPTH ? "unknown" : blockKind(json, type, fields);
  switch (kind) {
    case "text": {
      const text = textAt(json, fields.get("text")) ?? "";
      return { markdown: `${fenced(text)}${others(json, fields, ["text"])}`, words: text.slice(0, WORDS) };
    }
    case "thinking": {
      const text = textAt(json, fields.get("thinking")) ?? "";
      return { markdown: `### Thinking\n\n${fenced(text)}${others(json, fields, ["thinking"])}`, words: "" };
    }
    case "redacted":
      return { markdown: "[thinking, encrypted by the provider]\n", words: "" };
    case "call":
      return callBlock(json, fields, context);
    case "result":
      return resultBlock(json, fields, context);
    case "media":
      return mediaBlock(json, fields, type, context);
    case "unknown":
      return unknownBlock(json, span, type, context);
    default:
      return kind satisfies never;
  }
};

/**
 * The blocks of a message, in order.
 * @param content the JSON text of a content array, as stored
 */
export const renderBlocks = (content: string, context: BlockContext): readonly RenderedBlock[] =>
  arrayElements(content).map((span) => renderBlock(content, span, context));
