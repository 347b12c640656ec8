/**
 * Finds what a summary must not lose or reword (S2, S6): paths, ids, hashes, URLs, error codes, names from code, versions, dates and
 * numbers with units. One pass that cuts the text into words and looks at each by itself, so the work is linear whatever the text holds.
 */

import { eachWord, MAX_WORD_CHARS } from "./words.ts";

export type IdentifierKind =
  | "path"
  | "url"
  | "id"
  | "uuid"
  | "hash"
  | "error"
  | "code"
  | "version"
  | "date"
  | "number"
  | "email"
  | "constraint";

/** Called for each identifier found, in order, repetitions included. */
export type FoundIdentifier = (text: string, kind: IdentifierKind) => void;

const MIN_WORD_CHARS = 3;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const HASH = /^(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,128}$|^(?=[0-9A-F]*\d)(?=\d*[A-F])[0-9A-F]{16,128}$/;
const URL_WORD = /^[a-z][a-z0-9+.-]{1,20}:\/\/[^\s]+$/i;
const EMAIL = /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/;
const DATE = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?$/;
const VERSION = /^[v^~]?\d+\.\d+\.\d+(?:[-+.][\w.+-]+)?$|^v\d+(?:\.\d+)+$/;
const LONG_NUMBER = /^\d{5,30}$/;
const AMOUNT = /^[$€£¥]\d[\d.,]*$|^\d[\d.,]*(?:%|[a-zA-Zµ]{1,4})$/;
const NUMERAL = /^[$€£¥]?\d[\d.,]*$/;
const UNIT =
  /^(?:ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?|days?|weeks?|months?|years?|b|bytes?|[kmgt]i?b|[kmgt]bps|px|em|rem|pt|mm|cm|m|km|kg|g|lbs?|%|percent|usd|eur|gbp|tokens?|rows?|lines?|files?|users?|items?|req|rps|hz|[kmg]hz|w|kw|v|°c|°f)$/i;
const ERROR_NAME = /^[A-Z]\w*(?:Error|Exception|Warning|Fault)$/;
const ERROR_CODE =
  /^E(?:NO|ACC|PERM|EXIST|IS|NOT|ADDR|CONN|TIME|PIPE|BUSY|AGAIN|MFILE|HOST|NET|RANGE|INVAL|RESOLVE|LIFECYCLE)[A-Z]*$|^TS\d{3,5}$|^SQLSTATE$/;
const STATUS_WORD = /^(?:code|status|http|errno|exit|sqlstate|error)$/i;
const STATUS = /^-?\d{1,5}$|^[0-9A-Z]{5}$/;
const LETTERS_AND_DIGITS = /^#?(?=.*\d)(?=.*[A-Z])[A-Z0-9]{4,40}$/;
const HASH_NUMBER = /^#[A-Z]?\d{1,20}$/;
const HYPHEN_ID = /^[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*-[A-Za-z]*\d[A-Za-z0-9.]*(?:-[A-Za-z0-9.]+)*$/;
const NAME = /^[A-Za-z_$][\w$]*$/;
const FLAG = /^--[a-z][\w-]+$/;
const FILE_NAME =
  /^\.?[\w@-]+(?:\.[\w@-]+)*\.(?:[cm]?[jt]sx?|json[cl]?|md|mdx|py|pyi|ipynb|rs|go|java|kt|swift|rb|php|cs?|cc|cpp|cxx|hh?|hpp|sh|bash|zsh|fish|ps1|sql|html?|css|s[ac]ss|less|vue|svelte|ya?ml|toml|ini|cfg|conf|env|lock|txt|csv|tsv|xml|svg|png|jpe?g|gif|webp|ico|pdf|docx?|xlsx?|pptx?|zip|tar|t?gz|bz2|xz|7z|jar|war|log|db|sqlite|proto|graphql|gradle|mod|sum|wasm|so|dll|exe|pony|pl|pm|lua|r|jl|ex|exs|erl|hs|ml|scala|clj|dart|tf|map|d)$/i;
/** Endings that are members in code more often than files: `items.map`, `console.log`, `process.env`. */
const MEMBER_NAME = /^[A-Za-z]+\.(?:map|log|env|lock|so|mod|sum|d|r|ex|h|c|pm|db)$/;
const PATH = /^(?:~|\.{1,2}|[A-Za-z]:|@?[^/\\:*?=&#!]+)?(?:[/\\][^/\\:*?=&!]*)+$/;
const LINE_SUFFIX = /(?::\d+){1,2}(?:-\d+)?$/;

const isPath = (word: string): boolean => {
  if (!PATH.test(word)) return false;
  const rooted = /^(?:[~.]|[A-Za-z]:)?[/\\]|^\.\./.test(word) || word.startsWith("@");
  const parts = word.split(/[/\\]/).filter((part) => part !== "");
  if (!parts.some((part) => /[\p{L}]{2}/u.test(part))) return false;
  if (rooted) return parts.length > 1 || /^[/\\]?\w[\w-]*\.\w|^~|^\.|^\/\w{3}/.test(word);
  // "and/or", "read/write": without a root it takes an extension, or a third part that no prose has.
  if (FILE_NAME.test(parts.at(-1) ?? "")) return true;
  return parts.length > 2 && parts.some((part) => /[\d._-]/.test(part));
};

/** A name that only code has: several humps, or parts joined by an underscore. */
const isCodeName = (word: string): boolean =>
  NAME.test(word) &&
  (/[a-z0-9][A-Z]/.test(word) || /[A-Za-z0-9]_+[A-Za-z0-9]/.test(word) || /^[A-Z]+[A-Z][a-z]{2}/.test(word));

const kindOfName = (word: string): IdentifierKind | null => {
  if (ERROR_NAME.test(word) || ERROR_CODE.test(word)) return "error";
  if (LETTERS_AND_DIGITS.test(word) || HASH_NUMBER.test(word) || LONG_NUMBER.test(word)) return "id";
  if (isCodeName(word)) return /_\d{3,}$|^[a-z]{2,8}_[A-Za-z0-9]{14,}$/.test(word) ? "id" : "code";
  if (FLAG.test(word)) return "code";
  return HYPHEN_ID.test(word) && word.length >= 6 ? "id" : null;
};

/** The kind of a whole word, or null. */
const kindOf = (word: string): IdentifierKind | null => {
  if (URL_WORD.test(word)) return "url";
  if (UUID.test(word)) return "uuid";
  if (DATE.test(word)) return "date";
  if (EMAIL.test(word)) return "email";
  if (HASH.test(word)) return "hash";
  if (VERSION.test(word)) return "version";
  if (AMOUNT.test(word)) return unitOf(word);
  if (word.includes("/") || word.includes("\\")) return isPath(word) ? "path" : null;
  if (FILE_NAME.test(word) && !MEMBER_NAME.test(word)) return "path";
  return kindOfName(word);
};

const unitOf = (word: string): IdentifierKind | null => {
  if (/^[$€£¥]/.test(word)) return "number";
  return UNIT.test(word.replace(/^[\d.,]+/, "")) ? "number" : kindOfName(word);
};

interface Classified {
  readonly text: string;
  readonly kind: IdentifierKind;
}

const NONE: readonly Classified[] = [];

const one = (text: string): Classified | null => {
  const kind = text.length < MIN_WORD_CHARS && !AMOUNT.test(text) ? null : kindOf(text);
  return kind === null ? null : { text, kind };
};

/** What a word holds: itself, or the parts of `name=value`, `name:value`, `a.b.c`. */
const classify = (raw: string): readonly Classified[] => {
  const start = /^[*_.,:!?&+=^%~-]*/.exec(raw)?.[0] ?? "";
  // A dot, dash, tilde or underscore belongs to what follows it: ./x, --flag, ~/x, _private.
  const kept = /(?:\.{1,2}|--|~|_+)$/.exec(start)?.[0] ?? "";
  const lead = start.slice(0, start.length - kept.length);
  let end = raw.length;
  while (end > lead.length && ".,:;!?*…=&+-~^".includes(raw.charAt(end - 1))) end--;
  const word = raw.slice(lead.length, end);
  if (word.length < 2 || word.length > MAX_WORD_CHARS) return NONE;
  if (!URL_WORD.test(word) && !DATE.test(word)) {
    const line = word.replace(LINE_SUFFIX, "");
    if (line !== word && line.length >= MIN_WORD_CHARS) return classify(line);
    if (/[=:]/.test(word) && !/^[A-Za-z]:[/\\]/.test(word)) return word.split(/[=:]+/).flatMap(classifyPart);
  }
  const whole = one(word);
  if (whole !== null) return [whole];
  if (word.includes("/")) return NONE;
  return word.includes(".") || word.includes("#") || word.includes("@") || word.includes("-")
    ? word.split(/[.#@-]+/).flatMap(classifyPart)
    : NONE;
};

const classifyPart = (part: string): readonly Classified[] => (part.length < 2 ? NONE : classify(part));

/** Words seen already, since a log says the same ones over and over. Kept within one call, so that nothing outlives it. */
export type WordCache = Map<string, readonly Classified[]>;

/** Most words remembered; beyond it they are looked at again. */
const MAX_CACHED_WORDS = 50_000;

/**
 * Reports every identifier of a text but constraints, which are whole sentences (see `findConstraints`).
 * @param cache shared between the texts of one compaction
 */
export const findIdentifiers = (text: string, cache: WordCache, found: FoundIdentifier): void => {
  let before = "";
  eachWord(text, (word, plain) => {
    const parts = plain ? NONE : partsOf(word, cache);
    for (const part of parts) found(part.text, part.kind);
    if (parts.length === 0) withNeighbour(before, word, found);
    before = word;
  });
};

const partsOf = (word: string, cache: WordCache): readonly Classified[] => {
  const known = cache.get(word);
  if (known !== undefined) return known;
  const parts = classify(word);
  if (cache.size < MAX_CACHED_WORDS) cache.set(word, parts);
  return parts;
};

/** Numbers whose meaning stands in the word beside them: `15 ms`, `exit code 1`, `status 404`. */
const withNeighbour = (before: string, word: string, found: FoundIdentifier): void => {
  if (NUMERAL.test(before)) {
    const unit = word.replace(/[.,:!?]+$/, "");
    if (UNIT.test(unit)) found(`${before} ${unit}`, "number");
  } else if (/^-?[0-9A-Z]/.test(word) && STATUS_WORD.test(before.replace(/:$/, ""))) {
    const status = word.replace(/[.,:!?]+$/, "");
    if (STATUS.test(status) && /\d/.test(status)) found(`${before} ${status}`, "error");
  }
};

const SENTENCE = /[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]*)*[.!?。！？]*/gu;
const DEMANDS =
  /\b(?:must|never|always|do not|don't|cannot|can't|should not|shouldn't|may not|only|at least|at most|no more than|no less than|not later than|required|forbidden|avoid|without|keep|until|make sure|ensure|nunca|siempre|muss|nicht|jamais|toujours|никогда|нельзя|всегда)\b|必须|不要|不能|务必|只能|禁止|يجب|لا تستخدم/iu;
const MIN_CONSTRAINT_CHARS = 8;
const MAX_CONSTRAINT_CHARS = 300;

/** The sentences of a user's text that demand or forbid something, verbatim. */
export const findConstraints = (text: string): readonly string[] => {
  const constraints: string[] = [];
  for (const match of text.matchAll(SENTENCE)) {
    const sentence = match[0].trim();
    if (sentence.length < MIN_CONSTRAINT_CHARS || sentence.length > MAX_CONSTRAINT_CHARS) continue;
    if (DEMANDS.test(sentence)) constraints.push(sentence);
  }
  return constraints;
};
