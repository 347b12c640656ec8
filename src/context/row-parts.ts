/** A row's content as the texts that the sections are built from. Media, thinking and sealed data are left out. */
import { isRecord } from "../protocol/is-record.ts";
import type { LogRow } from "../protocol/messages.ts";

export type RowPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly input: unknown }
  | { readonly kind: "result"; readonly callId: string; readonly texts: readonly string[] };

/** Members that hold no text of the conversation. */
const SEALED = new Set([
  "type",
  "id",
  "tool_use_id",
  "data",
  "signature",
  "encrypted_content",
  "encrypted_index",
  "source",
  "cache_control",
  "caller",
]);

/** Nesting beyond this is not looked into; input of tools is rarely deeper than 6. */
const MAX_DEPTH = 24;

/** Calls `visit` for each string in a value, with the key it stands under. */
export const eachText = (value: unknown, visit: (text: string, key: string) => void, key = "", depth = 0): void => {
  if (typeof value === "string") visit(value, key);
  else if (typeof value === "number") visit(String(value), key);
  else if (depth >= MAX_DEPTH) return;
  else if (Array.isArray(value)) for (const item of value) eachText(item, visit, key, depth + 1);
  else if (isRecord(value)) for (const [name, item] of Object.entries(value)) eachText(item, visit, name, depth + 1);
};

const resultTexts = (content: unknown): readonly string[] => {
  if (typeof content === "string") return [content];
  const texts: string[] = [];
  const visit = (value: unknown, depth: number): void => {
    if (typeof value === "string") texts.push(value);
    else if (depth >= MAX_DEPTH) return;
    else if (Array.isArray(value)) for (const item of value) visit(item, depth + 1);
    else if (isRecord(value))
      for (const [name, item] of Object.entries(value)) if (!SEALED.has(name)) visit(item, depth + 1);
  };
  visit(content, 0);
  return texts;
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

const partOf = (block: unknown): RowPart | null => {
  if (!isRecord(block)) return null;
  const type = textOf(block["type"]);
  if (type === "text") return { kind: "text", text: textOf(block["text"]) };
  if (type === "tool_use" || type === "server_tool_use" || type === "mcp_tool_use")
    return { kind: "call", id: textOf(block["id"]), name: textOf(block["name"]), input: block["input"] };
  if (type.endsWith("tool_result"))
    return { kind: "result", callId: textOf(block["tool_use_id"]), texts: resultTexts(block["content"]) };
  // A document given as plain text is part of what was said; one given as bytes is not readable here.
  if (type === "document" && isRecord(block["source"]) && block["source"]["type"] === "text")
    return { kind: "result", callId: "", texts: [textOf(block["source"]["data"])] };
  return null;
};

/** The parts of a row, in order. Content that is no array of blocks has none. */
export const rowParts = (row: Pick<LogRow, "content">): readonly RowPart[] => {
  const content: unknown = JSON.parse(row.content);
  if (!Array.isArray(content)) return [];
  return content.map(partOf).filter((part) => part !== null);
};
