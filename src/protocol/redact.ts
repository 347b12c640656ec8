/**
 * Takes secrets out of text that leaves the room it was said in: what a summariser reads and writes, rendered sections, spans, log lines,
 * messages of errors (S6; docs/redaction.md lists every place). Identifiers (paths, uuids, commit hashes, ids) stay. Every pattern is
 * linear: it starts at a literal and its repetitions are bounded or cannot be divided in two ways.
 */

import {
  findArguments,
  findAuthorization,
  findCookies,
  findJwk,
  findPem,
  findUrlCredentials,
} from "./secrets/forms.ts";
import { type Found, mark, type SecretKind } from "./secrets/found.ts";
import { jsonEdits } from "./secrets/json.ts";
import { findNamed } from "./secrets/named.ts";
import { findTokens } from "./secrets/tokens.ts";
import { type Edit, splice } from "./splice.ts";

export type { SecretKind } from "./secrets/found.ts";
export { isSecretName } from "./secrets/names.ts";

export interface Redacted {
  readonly text: string;
  /** How many secrets were replaced. */
  readonly hits: number;
}

/** Where two find the same secret, the first gives it its name. */
const FINDERS = [
  findPem,
  findTokens,
  findAuthorization,
  findCookies,
  findUrlCredentials,
  findArguments,
  findJwk,
  findNamed,
] as const;

/** What all finders found, in order; what overlaps is one secret. */
const merged = (found: readonly Found[]): readonly Found[] => {
  const order = new Map(found.map((one, index) => [one, index]));
  const joined: { start: number; end: number; kind: SecretKind; by: number }[] = [];
  for (const one of found.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const by = order.get(one) ?? 0;
    const last = joined.at(-1);
    if (last === undefined || one.start >= last.end) {
      joined.push({ ...one, by });
      continue;
    }
    last.end = Math.max(last.end, one.end);
    if (by < last.by) [last.kind, last.by] = [one.kind, by];
  }
  return joined;
};

/** How deep JSON in strings of JSON is read as such; below, it is text. */
const MAX_DEPTH = 5;

const isJson = (text: string): boolean => {
  if (!/^\s{0,9000}["[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

const textEdits = (text: string): readonly Edit[] =>
  merged(FINDERS.flatMap((find) => find(text))).map(({ start, end, kind }) => ({ start, end, by: mark(kind) }));

/** What is left may form a secret of its own with a mark beside it; it takes one more look, very rarely two. */
const MAX_LOOKS = 4;

/** Names, ids, words: too short to be a token, and nothing in them that gives a secret away. Most strings of JSON are such. */
const isHarmless = (text: string): boolean => text.length < 20 && !/[:=@"'{[<]|--|\s-/.test(text);

const redacted = (text: string, depth: number): Redacted => {
  if (isHarmless(text)) return { text, hits: 0 };
  let hits = 0;
  let left = text;
  for (let look = 0; look < MAX_LOOKS; look++) {
    let inner = 0;
    const leaf = (value: string): string => {
      const one = redacted(value, depth + 1);
      inner += Math.max(0, one.hits - 1);
      return one.text;
    };
    const edits = depth < MAX_DEPTH && isJson(left) ? jsonEdits(left, leaf) : textEdits(left);
    if (edits.length === 0) break;
    hits += edits.length + inner;
    left = splice(left, edits);
  }
  return { text: left, hits };
};

/**
 * Replaces secrets by a mark that names their kind. A text that is JSON is read as such: values under names of secrets go whatever they
 * look like, also in JSON that is quoted in a string.
 * @returns the text and how many were replaced; a hit is never a failure (S6). Redacting the result again changes nothing
 */
export const redact = (text: string): Redacted => redacted(text, 0);

/**
 * The same for a value as JSON has it: values under names of secrets are replaced whatever they look like, other strings as texts.
 * @returns a copy; the value itself where it holds no secret. What JSON cannot say (undefined, functions) is left out of a copy
 */
export const redactJson = <Value>(value: Value): Value => {
  const json = JSON.stringify(value);
  if (json === undefined) return value;
  // Brackets make a text of every value, a bare string too.
  const { text, hits } = redact(`[${json}]`);
  return hits === 0 ? value : JSON.parse(text)[0];
};

const MARK = /\[redacted [a-z_]{3,20}\]/g;

/** A redacted text for whoever looks for identifiers: the kinds of secrets are none. */
export const withoutMarks = (text: string): string => (text.includes("[redacted ") ? text.replace(MARK, " ") : text);

/** Characters that are looked at on both sides of a cut; a key file has about half of it. */
const CUT_WINDOW = 8_192;

/**
 * Where a text may be cut near a place without leaving a part of a secret behind, which nothing would recognise any more.
 * @param at where the cut is wanted
 * @returns `before` and `after` the secret that stands there; both are `at` where none does
 */
export const besideSecret = (
  text: string,
  at: number,
  windowChars = CUT_WINDOW,
): { readonly before: number; readonly after: number } => {
  if (at <= 0 || at >= text.length) return { before: at, after: at };
  const from = Math.max(0, at - windowChars);
  const found = merged(FINDERS.flatMap((find) => find(text.slice(from, at + windowChars))));
  const torn = found.find(({ start, end }) => from + start < at && at < from + end);
  return torn === undefined ? { before: at, after: at } : { before: from + torn.start, after: from + torn.end };
};
