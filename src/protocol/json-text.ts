/**
 * JSON as text: finds, repairs and joins pieces of JSON without parsing it, so that what was stored is what is sent (V9).
 *
 * The finders take text that `JSON.parse` accepts; on anything else they throw a SyntaxError or answer nonsense, never hang.
 * All of them are iterative and linear in the text.
 */

/** A value's place in a text: UTF-16 units, `end` exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Member extends Span {
  /** The key as parsed. */
  readonly key: string;
  /** Where the key's opening quote stands. `start` and `end` are the value's. */
  readonly keyStart: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const isSpace = (unit: number): boolean => unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;

const skipSpace = (text: string, from: number): number => {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
};

const unexpected = (text: string, at: number, wanted: string): SyntaxError =>
  new SyntaxError(
    `expected ${wanted} at position ${at}, found ${at < text.length ? JSON.stringify(text[at]) : "the end"}`,
  );

/** The index after the string whose opening quote is at `open`. @throws SyntaxError if it does not end */
export const endOfString = (text: string, open: number): number => {
  let quote = text.indexOf('"', open + 1);
  while (quote !== -1) {
    let slash = quote - 1;
    while (text.charCodeAt(slash) === BACKSLASH) slash--;
    if ((quote - slash) % 2 === 1) return quote + 1;
    quote = text.indexOf('"', quote + 1);
  }
  throw unexpected(text, text.length, "a closing quote");
};

const isOpening = (unit: number): boolean => unit === OPEN_ARRAY || unit === OPEN_OBJECT;
const isClosing = (unit: number): boolean => unit === CLOSE_ARRAY || unit === CLOSE_OBJECT;

/** The index after the value that starts at `start`. */
const endOfValue = (text: string, start: number): number => {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return endOfString(text, start);
  let at = start;
  if (!isOpening(first)) {
    while (at < text.length) {
      const unit = text.charCodeAt(at);
      if (unit === COMMA || isClosing(unit) || isSpace(unit)) break;
      at++;
    }
    if (at === start) throw unexpected(text, start, "a value");
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    at++;
    if (isOpening(unit)) depth++;
    else if (isClosing(unit) && --depth === 0) return at;
  }
  throw unexpected(text, text.length, "a closing bracket");
};

/** Steps over a separator; answers where the next item starts, or undefined after the last one. */
const nextItem = (text: string, after: number, close: number): number | undefined => {
  const at = skipSpace(text, after);
  const unit = text.charCodeAt(at);
  if (unit === close) return undefined;
  if (unit !== COMMA) throw unexpected(text, at, "a comma");
  return skipSpace(text, at + 1);
};

const firstItem = (text: string, from: number, open: number, close: number, what: string): number | undefined => {
  const at = skipSpace(text, from);
  if (text.charCodeAt(at) !== open) throw unexpected(text, at, what);
  const item = skipSpace(text, at + 1);
  return text.charCodeAt(item) === close ? undefined : item;
};

/**
 * The elements of a JSON array, in order.
 * @param from where the array starts (space before it is skipped)
 * @throws SyntaxError if there is no array
 */
export const arrayElements = (text: string, from = 0): readonly Span[] => {
  const elements: Span[] = [];
  let start = firstItem(text, from, OPEN_ARRAY, CLOSE_ARRAY, "an array");
  while (start !== undefined) {
    const end = endOfValue(text, start);
    elements.push({ start, end });
    start = nextItem(text, end, CLOSE_ARRAY);
  }
  return elements;
};

/**
 * The members of a JSON object, in order, duplicates included (a parser takes the last).
 * @param from where the object starts (space before it is skipped)
 * @throws SyntaxError if there is no object
 */
export const objectMembers = (text: string, from = 0): readonly Member[] => {
  const members: Member[] = [];
  let keyStart = firstItem(text, from, OPEN_OBJECT, CLOSE_OBJECT, "an object");
  while (keyStart !== undefined) {
    if (text.charCodeAt(keyStart) !== QUOTE) throw unexpected(text, keyStart, "a key");
    const keyEnd = endOfString(text, keyStart);
    const colon = skipSpace(text, keyEnd);
    if (text.charCodeAt(colon) !== COLON) throw unexpected(text, colon, "a colon");
    const start = skipSpace(text, colon + 1);
    const end = endOfValue(text, start);
    members.push({ key: String(JSON.parse(text.slice(keyStart, keyEnd))), keyStart, start, end });
    keyStart = nextItem(text, end, CLOSE_OBJECT);
  }
  return members;
};

/**
 * The strings in a value at any depth that are no keys, quotes included, in order.
 * @param minLength shorter strings are left out: in UTF-16 units of the text, quotes included
 */
export const stringLeaves = (text: string, value: Span, minLength = 0): readonly Span[] => {
  const leaves: Span[] = [];
  let open = text.indexOf('"', value.start);
  while (open !== -1 && open < value.end) {
    const end = endOfString(text, open);
    if (end - open >= minLength && text.charCodeAt(skipSpace(text, end)) !== COLON) leaves.push({ start: open, end });
    open = text.indexOf('"', end);
  }
  return leaves;
};

/** How deep arrays and objects are nested: 0 for a scalar, 1 for `[]`. Safe on text that is no JSON, for use before a parse. */
export const jsonDepth = (text: string): number => {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = skipAnyString(text, at);
    } else if (isOpening(unit)) {
      depth++;
      if (depth > deepest) deepest = depth;
    } else if (isClosing(unit)) depth--;
  }
  return deepest;
};

/** The index of a string's closing quote, or the text's end where there is none. */
const skipAnyString = (text: string, open: number): number => {
  let at = open + 1;
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return at;
};

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** One surrogate found in JSON text, raw (1 unit long) or as an escape (6 units long). */
interface Surrogate extends Span {
  readonly unit: number;
}

const surrogateAt = (text: string, at: number): Surrogate | undefined => {
  const raw = text.charCodeAt(at);
  if (isHigh(raw) || isLow(raw)) return { start: at, end: at + 1, unit: raw };
  if (raw !== BACKSLASH || text.charCodeAt(at + 1) !== 0x75) return undefined;
  const digits = text.slice(at + 2, at + 6);
  return /^[dD][89a-fA-F][0-9a-fA-F]{2}$/.test(digits)
    ? { start: at, end: at + 6, unit: Number.parseInt(digits, 16) }
    : undefined;
};

const escaped = (surrogate: Surrogate): string => `\\u${surrogate.unit.toString(16)}`;

/**
 * JSON text without lone surrogates: a raw one becomes U+FFFD, an escaped one `\ufffd`. Everything else keeps its bytes.
 * A pair of which one half is raw and one escaped keeps its meaning and becomes two escapes, since the raw half alone cannot
 * be sent as UTF-8.
 */
export const repairSurrogates = (text: string): string => {
  if (text.isWellFormed() && !/\\u[dD][89a-fA-F]/.test(text)) return text;
  const pieces: string[] = [];
  let copied = 0;
  const replace = (start: number, end: number, by: string): void => {
    pieces.push(text.slice(copied, start), by);
    copied = end;
  };
  let at = 0;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit !== BACKSLASH && (unit < 0xd800 || unit > 0xdfff)) {
      at++;
      continue;
    }
    const found = surrogateAt(text, at);
    if (found === undefined) {
      at += 2;
      continue;
    }
    const next = isHigh(found.unit) ? surrogateAt(text, found.end) : undefined;
    if (next !== undefined && isLow(next.unit)) {
      const mixed = found.end - found.start !== next.end - next.start;
      if (mixed) replace(found.start, next.end, escaped(found) + escaped(next));
      at = next.end;
      continue;
    }
    replace(found.start, found.end, found.end - found.start === 1 ? "\ufffd" : "\\ufffd");
    at = found.end;
  }
  if (pieces.length === 0) return text;
  pieces.push(text.slice(copied));
  return pieces.join("");
};

/** JSON text to be put into a larger JSON text as it is. */
export class RawJson {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Like `JSON.stringify(value)`, but a `RawJson` anywhere in the value is put in verbatim.
 * @throws TypeError for what JSON cannot say at the top (undefined, a function), a bigint, or a cycle (as RangeError)
 */
export const stringifyWith = (value: unknown): string => {
  const text = stringify(value, "");
  if (text === undefined) throw new TypeError("the value has no JSON form");
  return text;
};

const hasToJson = (value: object): value is { toJSON(key: string): unknown } =>
  "toJSON" in value && typeof value.toJSON === "function";

const stringify = (value: unknown, key: string): string | undefined => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (value instanceof RawJson) return value.text;
  if (hasToJson(value)) return JSON.stringify(value.toJSON(key));
  if (Array.isArray(value))
    return `[${value.map((item, index) => stringify(item, String(index)) ?? "null").join(",")}]`;
  if (value instanceof String || value instanceof Number || value instanceof Boolean) return JSON.stringify(value);
  const members: string[] = [];
  for (const [name, item] of Object.entries(value)) {
    const text = stringify(item, name);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(",")}}`;
};
