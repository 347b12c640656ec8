/** A message on its way into the log, whatever format it came in, and what is said when it cannot go there. */
import type { ContentText, Role } from "../../protocol/messages.ts";

/** Something with an id, and the place of that id in the request. */
export interface DraftResult {
  readonly id: string;
  /** JSON path, such as `messages[12].content[0].tool_use_id`. */
  readonly path: string;
}

export interface DraftCall extends DraftResult {
  readonly name: string;
}

export interface DraftMessage {
  readonly role: Role;
  /** As it stood in the request where that was in Messages format (V9), lone surrogates repaired. */
  readonly content: ContentText;
  /** Client-side tool calls, in order. */
  readonly calls: readonly DraftCall[];
  readonly results: readonly DraftResult[];
  /** The texts of a message that holds nothing but text; null for any other. */
  readonly texts: readonly string[] | null;
  /** Where the message stands in the request: `messages[12]`. */
  readonly path: string;
  /** Whether lone surrogates were replaced. */
  readonly repaired: boolean;
}

/** A transcript that cannot be imported: the first place that is wrong, and what was expected there. */
export class TranscriptError extends Error {
  override readonly name = "TranscriptError";
  /** JSON path in the request, or `body`. */
  readonly path: string;

  constructor(path: string, problem: string) {
    super(problem);
    this.path = path;
  }
}

export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const LONGEST_QUOTE = 60;

/** What was found, in few words, for an error. */
const found = (value: unknown): string => {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty array" : "an array";
  if (typeof value === "object" && value !== null) return "an object";
  const text = JSON.stringify(value);
  return text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}...` : text;
};

/** The error for a value that is not what it should be. */
export const expected = (path: string, what: string, got: unknown): TranscriptError =>
  new TranscriptError(path, `expected ${what}, got ${found(got)}`);

export const requireString = (object: JsonObject, key: string, path: string): string => {
  const value = object[key];
  if (typeof value !== "string") throw expected(`${path}.${key}`, "a string", value);
  return value;
};

/** The Messages API takes no text that is empty or only white space. */
export const requireText = (value: unknown, path: string): string => {
  if (typeof value !== "string") throw expected(path, "a string", value);
  if (value.trim() === "") throw expected(path, "a text that is not blank", value);
  return value;
};
