/**
 * JSON that remembers how it was written.
 *
 * The prompt cache and signed thinking depend on the bytes of a tool input: `1.0` is not `1`, and keys keep their order even
 * where JavaScript would sort them. White space and the way a string is escaped are not part of it, as with the real API,
 * which reads the JSON before it renders a prompt.
 */
import { ApiError } from "./errors.ts";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json | undefined;
}

/** A value with its number texts and key order. Scalars hold their normalised JSON text. */
export type JsonNode =
  | { readonly kind: "object"; readonly entries: readonly (readonly [key: string, value: JsonNode])[] }
  | { readonly kind: "array"; readonly items: readonly JsonNode[] }
  | { readonly kind: "scalar"; readonly text: string };

/** Deeper nesting than any real request has; keeps the reader from exhausting the stack. */
const MAX_DEPTH = 512;

const notJson = (why: string): ApiError => new ApiError(400, `The request body is not valid JSON: ${why}`);

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isArray = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);

/**
 * Reads a JSON text twice: as plain values and as nodes.
 * @throws ApiError 400 when the text is not JSON, or when a string in it holds half a surrogate pair
 */
export const readJson = (text: string): { readonly value: Json; readonly node: JsonNode } => {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    throw notJson(error instanceof Error ? error.message : "it could not be read");
  }
  return { value, node: scan(text) };
};

/** Reads a text that is known to be JSON into nodes. @throws ApiError 400 on a lone surrogate or absurd nesting */
export const scan = (text: string): JsonNode => {
  let at = 0;
  const skip = (): void => {
    while (" \n\r\t".includes(text[at] ?? "x")) at += 1;
  };
  const string = (): string => {
    const start = at;
    let end = at + 1;
    for (;;) {
      end = text.indexOf('"', end);
      let slashes = 0;
      while (text[end - 1 - slashes] === "\\") slashes += 1;
      end += 1;
      if (slashes % 2 === 0) break;
    }
    at = end;
    const raw = text.slice(start, end);
    const parsed = raw.includes("\\") ? (JSON.parse(raw) as string) : raw;
    if (!parsed.isWellFormed()) throw notJson(`no low surrogate in string: char ${start}`);
    return raw.includes("\\") ? JSON.stringify(parsed) : raw;
  };
  const value = (depth: number): JsonNode => {
    if (depth > MAX_DEPTH) throw notJson("nested too deeply");
    skip();
    const first = text[at];
    if (first === '"') return { kind: "scalar", text: string() };
    if (first === "{") {
      const entries: (readonly [string, JsonNode])[] = [];
      at += 1;
      for (skip(); text[at] !== "}"; skip()) {
        if (text[at] === ",") at += 1;
        skip();
        const key = JSON.parse(string()) as string;
        skip();
        at += 1;
        entries.push([key, value(depth + 1)]);
      }
      at += 1;
      return { kind: "object", entries };
    }
    if (first === "[") {
      const items: JsonNode[] = [];
      at += 1;
      for (skip(); text[at] !== "]"; skip()) {
        if (text[at] === ",") at += 1;
        items.push(value(depth + 1));
      }
      at += 1;
      return { kind: "array", items };
    }
    const start = at;
    while (at < text.length && !" \n\r\t,]}".includes(text[at] ?? "")) at += 1;
    return { kind: "scalar", text: text.slice(start, at) };
  };
  return value(0);
};

/** The member of an object node; the last one wins, as in a parse. */
export const member = (node: JsonNode | undefined, key: string): JsonNode | undefined =>
  node?.kind === "object" ? node.entries.findLast(([name]) => name === key)?.[1] : undefined;

/** The item of an array node. */
export const item = (node: JsonNode | undefined, index: number): JsonNode | undefined =>
  node?.kind === "array" ? node.items[index] : undefined;

/** The node's JSON text without white space. */
export const write = (node: JsonNode): string => {
  switch (node.kind) {
    case "scalar":
      return node.text;
    case "array":
      return `[${node.items.map(write).join(",")}]`;
    case "object":
      return `{${node.entries.map(([key, value]) => `${JSON.stringify(key)}:${write(value)}`).join(",")}}`;
    default: {
      const never: never = node;
      return never;
    }
  }
};
