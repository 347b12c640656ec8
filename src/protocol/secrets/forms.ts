/** Secrets that are known by what they stand in: a key file, a header, a URL, a cookie, a command. */
import { type Finder, type Found, isBasic, isMark } from "./found.ts";
import { isPlainValue } from "./plain.ts";

const PEM = /-----BEGIN [A-Z0-9 ]{0,40}(?:PRIVATE KEY|CERTIFICATE)[A-Z ]{0,10}-----/g;
const PEM_END = /-----END [^\n]{0,60}?-----|-----END /g;
/** Lines of a key, numbered or not, to the cut that took its end away. */
const PEM_BODY =
  /(?:\s|\\[nrt]|\d{1,7}(?:\.\d{1,3})?\t|[A-Za-z0-9+/=]{16,500}|[A-Za-z0-9+/]{1,15}={1,2}|(?:Proc-Type|DEK-Info):[^\n\\]{0,200}){0,500}(?:[A-Za-z0-9+/=]{1,15}(?=$|…|\.{3}|\s?\[|"))?/y;
/** A line of a key, and what ends it: a line break, or one that is written as `\n`; the next line may have a number. */
const KEY_LINE = /[A-Za-z0-9+/=]{16,100}(?:\\r\\n|\\n|\r?\n)[ \t]{0,12}(?:[\d.]{1,9}\t)?$/;
const LONGEST_LINE = 130;

/** Where the lines of a key begin whose head was cut off. */
const headlessStart = (text: string, end: number, least: number): number => {
  let start = end;
  for (;;) {
    const from = Math.max(least, start - LONGEST_LINE);
    const line = KEY_LINE.exec(text.slice(from, start));
    if (line === null) return start;
    start = from + line.index;
    // The letter of a line break that is written out belongs to it.
    if (text[start - 1] === "\\" && /[nr]/.test(text[start] ?? "")) start++;
  }
};

/** Private keys and certificates as PEM, also of those that were cut off what is there. */
export const findPem: Finder = (text) => {
  if (!text.includes("-----")) return [];
  const found: Found[] = [];
  let done = 0;
  const lastEnd = text.lastIndexOf("-----END ");
  for (const begin of text.matchAll(PEM)) {
    if (begin.index < done) continue;
    const from = begin.index + begin[0].length;
    PEM_END.lastIndex = from;
    const end = from <= lastEnd ? PEM_END.exec(text) : null;
    // In pieces, since a pattern that goes on for megabytes runs out of stack.
    let body = from;
    for (PEM_BODY.lastIndex = from; PEM_BODY.test(text) && PEM_BODY.lastIndex > body; ) body = PEM_BODY.lastIndex;
    // A block that was cut off: everything that still looks like its lines goes.
    done = end === null ? body : end.index + end[0].length;
    found.push({ start: begin.index, end: done, kind: "pem" });
  }
  return [...found, ...headless(text, found)];
};

const headless = (text: string, blocks: readonly Found[]): readonly Found[] => {
  const found: Found[] = [];
  let least = 0;
  let block = 0;
  for (const { index, 0: marker } of text.matchAll(/-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----/g)) {
    while ((blocks[block]?.end ?? Number.POSITIVE_INFINITY) <= index) block++;
    if ((blocks[block]?.start ?? Number.POSITIVE_INFINITY) < index) continue;
    const start = headlessStart(text, index, Math.max(least, blocks[block - 1]?.end ?? 0));
    least = index + marker.length;
    if (start < index) found.push({ start, end: least, kind: "pem" });
  }
  return found;
};

/** The header as it stands in text, JSON, or a command; the scheme stays. */
const AUTHORIZATION =
  /\b((?:proxy-)?authorization["'\\]{0,8}\s{0,4}[:=]\s{0,4}["'\\]{0,8}((?:bearer|basic|token|apikey|digest|negotiate)\s{1,4}|[a-z][\w-]{1,30} {1,4}(?=\S{0,40}\d))?)([^\s"'\\,;]{6,9000})/gi;
const BEARER = /\b(bearer\s{1,4})([\w.~+/-]{16,9000}={0,2})/gi;
const BASIC = /\b(basic\s{1,4})([A-Za-z0-9+/]{8,2000}={0,2})/gi;
const SIGNATURE = /\b(signature=)([0-9a-f]{40,128})/gi;
const AUTH = /\b(_?auth["'\\]{0,8}\s{0,4}[:=]\s{0,4}["'\\]{0,8})([A-Za-z0-9+/]{8,2000}={0,2})/g;

const groups = (
  text: string,
  pattern: RegExp,
  kind: Found["kind"],
  isSecret: (value: string, match: RegExpMatchArray) => boolean,
): readonly Found[] => {
  const found: Found[] = [];
  for (const match of text.matchAll(pattern)) {
    const value = match.at(-1) ?? "";
    const start = match.index + (match[1]?.length ?? 0);
    if (!isMark(value) && isSecret(value, match)) found.push({ start, end: start + value.length, kind });
  }
  return found;
};

/** `Authorization` headers, and what stands in them. */
export const findAuthorization: Finder = (text) => {
  if (!/auth|bearer|basic|signature/i.test(text)) return [];
  return [
    ...groups(
      text,
      AUTHORIZATION,
      "authorization",
      (value, { 2: scheme }) =>
        !isPlainValue(value, false) && (scheme !== undefined || /\d/.test(value) || value.length >= 16),
    ),
    ...groups(text, BEARER, "authorization", (value) => /\d/.test(value) || value.length >= 24),
    ...groups(text, BASIC, "authorization", isBasic),
    ...groups(text, SIGNATURE, "authorization", () => true),
    ...groups(text, AUTH, "authorization", isBasic),
  ];
};

const COOKIES =
  /\b(?:set-cookie2?|cookie)(?:\\{0,8}["'])?\s{0,4}[:=]\s{0,4}(?:\\{0,8}["'])?|(?:--cookie|\s-b)[ =]{1,4}(?:\\{0,8}["'])?/gi;
/** Prose says "Cookie:" too, but then no pair follows. */
const COOKIE_LINE = /[^\s=;,"'\\]{1,128}=[^\r\n"'\\]{1,4096}/y;
const COOKIE = /([^\s=;,]{1,128}=)([^\s;,]{1,4096})/g;
const ATTRIBUTE = /^(?:path|domain|expires|max-age|samesite|priority|version|comment)=$/i;

/** The values of cookies; names and attributes stay. */
export const findCookies: Finder = (text) => {
  if (!/cookie|\s-b[ =]/i.test(text)) return [];
  const found: Found[] = [];
  COOKIES.lastIndex = 0;
  for (let head = COOKIES.exec(text); head !== null; head = COOKIES.exec(text)) {
    const from = COOKIES.lastIndex;
    COOKIE_LINE.lastIndex = from;
    const line = COOKIE_LINE.exec(text)?.[0];
    if (line === undefined || (/-b/.test(head[0]) && !/\bcurl\b/.test(text))) continue;
    for (const { index, 1: name = "", 2: value = "" } of line.matchAll(COOKIE)) {
      const start = from + index + name.length;
      if (!ATTRIBUTE.test(name) && !isMark(value)) found.push({ start, end: start + value.length, kind: "cookie" });
    }
    COOKIES.lastIndex = from + line.length;
  }
  return found;
};

const AUTHORITY = /[^\s/?#"'<>\\`]{0,600}/y;
const LOOSE = /[^\s@"'<>\\`]{1,256}(?=@)/y;
const ENCODED = /(%3A%2F%2F(?:(?!%3A|%40)[^\s"'<>&]){0,256}%3A)((?:(?!%40)[^\s"'<>&]){1,256})(?=%40)/gi;
const PORT = /^\d{0,5}(?:[/?#]|$)/;
const HOOK =
  /((?:hooks\.slack\.com\/(?:services|workflows|triggers)|discord(?:app)?\.com\/api\/webhooks|webhook\.office\.com)\/)([\w/@.-]{16,400})/g;
const SIGNED = /([?&](?:sig|signature|x-amz-signature|x-goog-signature)=)([^\s&#"'<>\\]{8,2000})/gi;

const credentialsAt = (text: string, from: number): Found | undefined => {
  AUTHORITY.lastIndex = from;
  const authority = AUTHORITY.exec(text)?.[0] ?? "";
  const at = authority.lastIndexOf("@");
  const colon = authority.indexOf(":");
  if (at > 0) {
    const start = colon >= 0 && colon < at ? colon + 1 : 0;
    const value = authority.slice(start, at);
    // Without a colon it is a user's name, or a token in its place.
    if (value === "" || (start === 0 && !(value.length >= 20 && /\d/.test(value)))) return undefined;
    return { start: from + start, end: from + at, kind: "url_credentials" };
  }
  if (colon <= 0 || authority.startsWith("[")) return undefined;
  LOOSE.lastIndex = from + colon + 1;
  const value = LOOSE.exec(text)?.[0];
  if (value === undefined || PORT.test(value)) return undefined;
  return { start: from + colon + 1, end: LOOSE.lastIndex, kind: "url_credentials" };
};

/** Credentials in URLs; scheme, user, host and path stay. */
export const findUrlCredentials: Finder = (text) => {
  const found: Found[] = [];
  for (let at = text.indexOf("://"); at !== -1; at = text.indexOf("://", at + 3)) {
    const one = credentialsAt(text, at + 3);
    if (one === undefined) continue;
    const value = text.slice(one.start, one.end);
    if (!isMark(value) && !isPlainValue(value, true)) found.push(one);
  }
  if (/%3A%2F%2F/i.test(text))
    found.push(...groups(text, ENCODED, "url_credentials", (value) => !isPlainValue(value, true)));
  if (/webhook|hooks\./.test(text)) found.push(...groups(text, HOOK, "url_credentials", () => true));
  if (/[?&](?:sig|x-(?:amz|goog)-sig)/i.test(text)) found.push(...groups(text, SIGNED, "url_credentials", () => true));
  return found;
};

/** The private members of a key as JSON. */
const JWK = /("(?:d|p|q|dp|dq|qi|k)\\{0,8}"\s{0,8}:\s{0,8}\\{0,8}")([\w-]{16,8000})/g;

/** Private parts of JSON web keys. */
export const findJwk: Finder = (text) =>
  /kty\\{0,8}"/.test(text) ? groups(text, JWK, "named_secret", () => true) : [];

const COMMAND = /\b(?:curl|wget|https?ie?|xh)\b(?:\\\n|[^\n]){0,4000}/g;
const USER = /(\s(?:-u|-U|--user|--proxy-user)[\s=]{0,4}(?:\\{0,8}["'])?[^\s:"'\\]{1,128}:)([^\s"'\\]{1,256})/g;
const OTHERS =
  /((?:\bmysql(?:dump|admin)?\b[^\n]{0,200}?\s-p|\bredis-cli\b[^\n]{0,200}?\s-a\s{1,4}|\bsshpass\s{1,4}-p\s{0,4}|\blogin\s{1,40}\S{1,128}\s{1,40}password\s{1,4}|\bidentified\s{1,4}by\s{1,4})(?:\\{0,8}["'])?)([^\s"'\\;]{3,256})/gi;

/** Passwords as arguments of commands that are known to take them. */
export const findArguments: Finder = (text) => {
  const found: Found[] = [];
  if (/\b(?:curl|wget|http|xh)/.test(text)) {
    for (const { index, 0: command } of text.matchAll(COMMAND)) {
      for (const { start, end, kind } of groups(command, USER, "named_secret", (value) => !/^\d{1,6}$/.test(value)))
        found.push({ start: index + start, end: index + end, kind });
    }
  }
  if (/mysql|redis-cli|sshpass|login\s|identified\s/i.test(text))
    found.push(...groups(text, OTHERS, "named_secret", (value) => !isPlainValue(value, true)));
  return found;
};
