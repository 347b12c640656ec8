/**
 * Takes secrets out of text before a summariser reads it, out of what it wrote, and out of the rendered sections (S6). Identifiers
 * (paths, uuids, commit hashes, ids) stay. Every pattern is linear: it starts at a literal and its repetitions are bounded or cannot
 * be divided in two ways.
 */

export type SecretKind =
  | "anthropic_key"
  | "openai_key"
  | "github_token"
  | "gitlab_token"
  | "slack_token"
  | "aws_key"
  | "google_key"
  | "huggingface_token"
  | "npm_token"
  | "stripe_key"
  | "sendgrid_key"
  | "jwt"
  | "pem"
  | "authorization"
  | "url_credentials"
  | "named_secret"
  | "other_token";

export interface Redacted {
  readonly text: string;
  /** How many secrets were replaced. */
  readonly hits: number;
}

/** What stands in a secret's place. Matches none of the patterns, so that redacting twice changes nothing. */
const mark = (kind: SecretKind): string => `[redacted ${kind}]`;

/** Tokens known by their first characters: the vendors' own documented formats. */
const PREFIXED: readonly (readonly [SecretKind, string])[] = [
  ["anthropic_key", String.raw`sk-ant-[\w-]{16,}`],
  ["stripe_key", String.raw`(?:[sr]k_(?:live|test)|whsec)_\w{16,}`],
  ["openai_key", String.raw`sk-(?:proj-|svcacct-|or-v1-)?[\w-]{20,}`],
  ["github_token", String.raw`(?:gh[opusr]_\w{20,}|github_pat_\w{20,})`],
  ["gitlab_token", String.raw`gl(?:pat|rt|ptt|dt|cbt)-[\w.-]{16,}`],
  ["slack_token", String.raw`(?:xox[abeoprs]|xapp)-[\w-]{10,}`],
  ["aws_key", "(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Z])"],
  ["google_key", String.raw`(?:AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,})`],
  ["huggingface_token", "hf_[A-Za-z0-9]{20,}"],
  ["npm_token", "npm_[A-Za-z0-9]{30,}"],
  ["sendgrid_key", String.raw`SG\.[\w-]{16,}\.[\w-]{16,}`],
  ["jwt", String.raw`eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?`],
  ["other_token", String.raw`(?:dop_v1_|shpat_|pypi-|dckr_pat_|lin_api_|sntrys_|hvs\.|key-)[\w-]{20,}`],
];
const ANY_PREFIXED = PREFIXED.map(([, source]) => `(${source})`).join("|");

/** A token begins a word ("task-force" holds none), or follows right on another one. */
const PREFIXED_WORD = new RegExp(`(?<![A-Za-z0-9_])(?:${ANY_PREFIXED})`, "g");
const PREFIXED_HERE = new RegExp(ANY_PREFIXED, "y");

const PEM = /-----BEGIN [A-Z0-9 ]{0,40}(?:PRIVATE KEY|CERTIFICATE)[A-Z ]{0,10}-----/g;
const PEM_END = /-----END [^\n]{0,60}?-----|-----END /g;

/** The header as it stands in text, JSON, or a curl call; the scheme stays. */
const AUTHORIZATION =
  /\b((?:proxy-)?authorization["'\\]{0,3}\s{0,4}[:=]\s{0,4}["'\\]{0,3}(?:(?:bearer|basic|token|apikey|digest|negotiate)\s{1,4})?)([^\s"'\\,;]{6,})/gi;
const BEARER = /\b(bearer\s{1,4})([\w.~+/-]{16,}={0,2})/gi;
const URL_CREDENTIALS = /(:\/\/[^\s/:@"'<>]{0,256}:)([^\s/@"'<>]{1,256})(?=@)/g;

const SECRET_WORD =
  "(?:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?key|secret[_-]?access[_-]?key|client[_-]?secret|private[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|session[_-]?token|bearer[_-]?token|password|passwd|passphrase|pwd|secret|token|credentials?)";
/** `NAME=value`, `name: "value"`, `"name": "value"`, `?name=value`, `--name value`. */
const NAMED = new RegExp(
  `((?:^|[^A-Za-z0-9])(?:[A-Za-z0-9]{1,40}[_-]){0,6}${SECRET_WORD}["'\\\\]{0,3}\\s{0,4}(?::|=>|=)\\s{0,4}|--(?:[a-z]{1,20}-){0,3}${SECRET_WORD}\\s{1,4})(?:(\\\\?["'])([^"'\\\\\\n]{4,})(?=\\\\?["'])|([^\\s"'\\\\,;&)}\\]<>]{4,}))`,
  "gi",
);
const SECRET_NAME = new RegExp(`(?:^|[^a-z0-9])${SECRET_WORD}$|(?:Key|Token|Secret|Password)$`, "i");
const NAMED_HINT = /key|token|secret|passw|passphrase|pwd|credential/i;

/** What stands after such a name in code and prose and is no secret: types, calls, placeholders, counts. */
const isPlainValue = (value: string): boolean =>
  value.startsWith("[redacted") ||
  /^\d{1,9}$/.test(value) ||
  /[(){}<>[\]]|^\$[A-Za-z_]+$/.test(value) ||
  /^(?:[A-Za-z_][\w]*\.)+[A-Za-z_]\w*$/.test(value) ||
  /^(?:string|str|number|int|bool|boolean|true|false|null|none|undefined|required|optional|object|array|any|bytes|text|varchar|uuid|self|this|os|process|env|config|usage|count|limit|name|type|value|import|from|return|const|your\S*|my\S*|x{3,}|\*{3,}|\.{3,})$/i.test(
    value,
  );

/** Without quotes only what a person would not write as a word: in prose "the token: expired" is no secret. */
const looksSecret = (name: string, value: string, quoted: boolean): boolean => {
  if (isPlainValue(value)) return false;
  if (/pass|pwd/i.test(name)) return true;
  if (quoted) return value.length >= 8 && !/\s/.test(value) && (/\d/.test(value) || value.length >= 20);
  return value.length >= 8 && /\d/.test(value) && /[A-Za-z]/.test(value) && !/^[./~]/.test(value);
};

/** Whether a value under this name (a key of tool input) is a secret whatever it looks like. */
export const isSecretName = (name: string): boolean => SECRET_NAME.test(name) && !/tokens$/i.test(name);

const withoutPrefixed = (text: string): Redacted => {
  const pieces: string[] = [];
  let copied = 0;
  let hits = 0;
  for (;;) {
    // Right after a token first: what it left behind would begin a word the next time.
    PREFIXED_HERE.lastIndex = copied;
    PREFIXED_WORD.lastIndex = copied;
    const match = (hits > 0 ? PREFIXED_HERE.exec(text) : null) ?? PREFIXED_WORD.exec(text);
    if (match === null) break;
    const kind = PREFIXED[match.findIndex((group, at) => at > 0 && group !== undefined) - 1]?.[0] ?? "other_token";
    pieces.push(text.slice(copied, match.index), mark(kind));
    copied = match.index + match[0].length;
    hits++;
  }
  if (hits === 0) return { text, hits };
  pieces.push(text.slice(copied));
  return { text: pieces.join(""), hits };
};

const withoutPem = (text: string): Redacted => {
  if (!text.includes("-----BEGIN ")) return { text, hits: 0 };
  const pieces: string[] = [];
  let copied = 0;
  let hits = 0;
  const lastEnd = text.lastIndexOf("-----END ");
  for (const begin of text.matchAll(PEM)) {
    if (begin.index < copied) continue;
    const from = begin.index + begin[0].length;
    PEM_END.lastIndex = from;
    const end = from <= lastEnd ? PEM_END.exec(text) : null;
    // A block that was cut off: everything that still looks like its lines goes.
    const after = end === null ? cutOffEnd(text, from) : end.index + end[0].length;
    pieces.push(text.slice(copied, begin.index), mark("pem"));
    copied = after;
    hits++;
  }
  pieces.push(text.slice(copied));
  return { text: pieces.join(""), hits };
};

const cutOffEnd = (text: string, from: number): number => {
  const body = /[A-Za-z0-9+/=\s\\]*/y;
  body.lastIndex = from;
  return body.test(text) ? body.lastIndex : from;
};

/**
 * Replaces secrets by a mark that names their kind.
 * @returns the text and how many were replaced; a hit is never a failure (S6). Redacting the result again changes nothing.
 */
export const redact = (text: string): Redacted => {
  const pem = withoutPem(text);
  const prefixed = withoutPrefixed(pem.text);
  let result = prefixed.text;
  let hits = pem.hits + prefixed.hits;
  // Functions as replacements: text is never read as a pattern (S8).
  const count = (by: string): string => {
    hits++;
    return by;
  };
  if (/authorization|bearer/i.test(result)) {
    result = result.replace(AUTHORIZATION, (whole, head: string, value: string) =>
      isPlainValue(value) ? whole : count(head + mark("authorization")),
    );
    result = result.replace(BEARER, (whole, head: string, value: string) =>
      /\d/.test(value) ? count(head + mark("authorization")) : whole,
    );
  }
  if (result.includes("://")) {
    result = result.replace(URL_CREDENTIALS, (whole, head: string, value: string) =>
      isPlainValue(value) ? whole : count(head + mark("url_credentials")),
    );
  }
  if (NAMED_HINT.test(result)) {
    result = result.replace(
      NAMED,
      (whole, name: string, quote: string | undefined, quoted: string | undefined, bare: string | undefined) => {
        const value = quoted ?? bare ?? "";
        if (!looksSecret(name, value, quoted !== undefined)) return whole;
        return count(name + (quote ?? "") + mark("named_secret"));
      },
    );
  }
  return { text: result, hits };
};
