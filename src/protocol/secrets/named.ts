/** Values under names of secrets, as text writes them: `NAME=value`, `name: "value"`, `"name": "value"`, `?name=value`, `--name value`. */
import type { Finder, Found } from "./found.ts";
import { isPasswordName, isSecretName } from "./names.ts";
import { isPlainValue } from "./plain.ts";

/** The word that such a name holds. */
const HINT = /pass|pwd|secret|token|key|credential|bearer|jwt|pat\b|sig\b|assertion|signature/gi;
const NAME_REST = /[\w-]{0,60}/y;
const LONGEST_NAME = 100;
const LONGEST_VALUE = 8_192;

/** Between a name and its value; quotes may be escaped any number of times, since JSON is quoted in JSON. */
const BETWEEN = /(?:\\{0,16}["'`\]]){0,2}\s{0,40}(?:=>|:=|={1,3}|:|%3A|%3D)\s{0,40}[bfru]{0,2}/iy;
/** `name: DB_PASSWORD, value: hunter2`, as containers are given their variables. */
const PAIRED =
  /(?:\\{0,16}["'])?[ \t]{0,4}(?:,\s{0,40}|\s{1,40})(?:\\{0,16}["'])?value(?:\\{0,16}["'])?\s{0,4}[:=]\s{0,4}/iy;
/** Also as two elements of a list. */
const AFTER_FLAG = /(?:[ \t]{1,4}|\\{0,16}["'],\s{0,20}(?=\\{0,16}["']))(?!-)/y;
/** `ALTER USER app PASSWORD 'x'`. */
const BEFORE_QUOTE = /\s{1,4}(?=\\{0,16}')/y;
const TAG_END = /[^<>\n]{0,100}>/y;

const QUOTE = /\\{0,16}["'`]/y;
const BARE = /[^\s"'`\\,;&)}\]<>]{1,8192}/y;
const WORD = /[^\s"'`\\]{1,8192}/y;
const QUERY = /(?:(?!%26|%23)[^\s"'`\\&#<>]){1,8192}/y;
const ELEMENT = /[^<>]{1,8192}/y;
/** The lines of a block in YAML: everything that is indented. */
const BLOCK = /[|>][+-]?\d?[ \t]{0,8}\r?\n((?:[ \t]{1,40}\S[^\n]{0,2000}(?:\n|$)){1,100})/y;

/** How a value stands: in quotes, as a word of a kind of line in which a word is nothing else, or anywhere. */
type Place = "quoted" | "certain" | "loose";

interface Value {
  readonly start: number;
  readonly end: number;
  readonly place: Place;
}

const isNameUnit = (unit: number): boolean =>
  (unit >= 0x30 && unit <= 0x39) ||
  (unit >= 0x41 && unit <= 0x5a) ||
  (unit >= 0x61 && unit <= 0x7a) ||
  unit === 0x5f ||
  unit === 0x2d;

const sticky = (pattern: RegExp, text: string, at: number): RegExpExecArray | null => {
  pattern.lastIndex = at;
  return pattern.exec(text);
};

/** The end of a quoted value: the same quote again, before the line ends; one escaped once more belongs to the value. */
const closing = (text: string, from: number, quote: string): number => {
  const window = text.slice(from, from + LONGEST_VALUE);
  for (let at = window.indexOf(quote); at !== -1; at = window.indexOf(quote, at + 1)) {
    const longer = at > 0 && window[at - 1] === "\\";
    if (longer) continue;
    const line = window.slice(0, at).indexOf("\n");
    return line === -1 ? from + at : -1;
  }
  return -1;
};

const valueAt = (text: string, at: number, bare: RegExp, place: Place): Value | undefined => {
  const block = text[at] === "|" || text[at] === ">" ? sticky(BLOCK, text, at) : null;
  if (block !== null) {
    const lines = block[1] ?? "";
    const indent = /^[ \t]*/.exec(lines)?.[0].length ?? 0;
    return {
      start: at + block[0].length - lines.length + indent,
      end: at + block[0].trimEnd().length,
      place: "certain",
    };
  }
  const quote = sticky(QUOTE, text, at)?.[0];
  if (quote !== undefined) {
    const start = at + quote.length;
    const end = closing(text, start, quote);
    if (end > start) return { start, end, place: "quoted" };
    if (end === start) return undefined;
    // A quote that nothing closes: the line was cut off, or it is none.
    const cut = sticky(WORD, text, start)?.[0];
    return cut === undefined ? undefined : { start, end: start + cut.length, place: "quoted" };
  }
  const word = sticky(bare, text, at)?.[0];
  if (word === undefined) return undefined;
  const end = at + (place === "loose" ? word.replace(/[.:!?]+$/, "") : word).length;
  return end > at ? { start: at, end, place } : undefined;
};

/** `NAME=value` as a line of its own, or behind what sets variables. */
const ASSIGNED = /(?:^|\n|\\n|[;&|"'`]\s?|(?:export|set|env|declare -x|-e|--env|ARG|ENV)[ =])[ \t]{0,8}$/i;

const valueAfter = (text: string, start: number, name: string): Value | undefined => {
  const end = start + name.length;
  const before = text[start - 1] ?? "";
  const between = sticky(BETWEEN, text, end);
  if (between !== null) {
    const at = end + between[0].length;
    if (before === "?" || before === "&" || /%3[AD]$/i.test(between[0])) return valueAt(text, at, QUERY, "certain");
    if (text.startsWith("--", start)) return valueAt(text, at, WORD, "certain");
    if (/^x-/i.test(name) && between[0].includes(":")) return valueAt(text, at, WORD, "certain");
    const assigns = between[0] === "=" && /^[A-Z][A-Z\d_]*$/.test(name);
    if (assigns && ASSIGNED.test(text.slice(Math.max(0, start - 24), start))) return valueAt(text, at, WORD, "certain");
    return valueAt(text, at, BARE, "loose");
  }
  const paired = sticky(PAIRED, text, end);
  if (paired !== null) return valueAt(text, end + paired[0].length, WORD, "certain");
  if (name.startsWith("-")) {
    const flag = sticky(AFTER_FLAG, text, end);
    if (flag !== null) return valueAt(text, end + flag[0].length, WORD, "certain");
  }
  if (before === "<") {
    const tag = sticky(TAG_END, text, end);
    const element = tag === null ? undefined : valueAt(text, end + tag[0].length, ELEMENT, "certain");
    if (element !== undefined && text.startsWith(`</${name}`, element.end)) return element;
  }
  if (isPasswordName(name)) {
    const gap = sticky(BEFORE_QUOTE, text, end);
    if (gap !== null) return valueAt(text, end + gap[0].length, BARE, "loose");
  }
  return undefined;
};

/** A call where a value is assigned, in code or in a shell. */
const CALL = /^(?:[A-Za-z_][\w.]*|\$)[([]/;

/** Without quotes only what a person would not write as a word: in prose "the token: expired" is no secret. */
const looksSecret = (name: string, value: string, place: Place): boolean => {
  if (isPlainValue(value, place !== "loose") || (place === "certain" && CALL.test(value))) return false;
  // Between two pieces of code in prose: `PASSWORD=`, `TOKEN=`.
  if (place === "quoted" && !/^[^\s,;].*[\p{L}\p{N}]|^[\p{L}\p{N}]/su.test(value)) return false;
  if (isPasswordName(name)) return place === "quoted" || value.length >= 3;
  if (isSecretName(value) && /^[a-z_-]+$/i.test(value)) return false;
  switch (place) {
    case "quoted":
      return value.length >= 8 && !/\s/.test(value) && (/\d/.test(value) || value.length >= 16);
    case "certain":
      return value.length >= 4 && !/^\d{1,6}$/.test(value);
    case "loose":
      return value.length >= 8 && /\d/.test(value) && /[A-Za-z]/.test(value) && !/^[./~]/.test(value);
    default: {
      const never: never = place;
      return never;
    }
  }
};

/** Values under names of secrets. */
export const findNamed: Finder = (text) => {
  const found: Found[] = [];
  HINT.lastIndex = 0;
  for (let hint = HINT.exec(text); hint !== null; hint = HINT.exec(text)) {
    let start = hint.index;
    const least = Math.max(0, start - LONGEST_NAME);
    while (start > least && isNameUnit(text.charCodeAt(start - 1))) start--;
    const after = hint.index + hint[0].length;
    const rest = sticky(NAME_REST, text, after)?.[0] ?? "";
    HINT.lastIndex = Math.max(after + rest.length, after);
    const name = text.slice(start, after + rest.length);
    // The letter of an escape stands before the name in quoted text: `\napi_key=...`.
    const lead = text[start - 1] === "\\" && /^[nrt]/.test(name) ? 1 : 0;
    // The user of a URL may be called `pwd`; what follows is the business of those who know URLs.
    if (!isSecretName(name.slice(lead)) || text.startsWith("://", start - 3)) continue;
    const value = valueAfter(text, start + lead, name.slice(lead));
    if (value === undefined || !looksSecret(name, text.slice(value.start, value.end), value.place)) continue;
    found.push({ start: value.start, end: value.end, kind: "named_secret" });
    HINT.lastIndex = value.end;
  }
  return found;
};
