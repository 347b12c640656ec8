/** Tokens known by their first characters: the vendors' own documented formats. */
import type { Finder, Found, SecretKind } from "./found.ts";

interface Format {
  readonly kind: SecretKind;
  /** How it begins; what is more exact stands first. */
  readonly begins: string;
  /** The whole of it, from its beginning on. */
  readonly whole: RegExp;
}

const format = (kind: SecretKind, begins: string, rest: string): Format => ({
  kind,
  begins,
  whole: new RegExp(`(?:${begins})${rest}`, "y"),
});

const FORMATS: readonly Format[] = [
  format("anthropic_key", "sk-ant-", String.raw`[\w-]{16,}`),
  format("stripe_key", "[srp]k_live_|[srp]k_test_|whsec_", String.raw`[\w+/]{16,}={0,2}`),
  format("openai_key", "sk-", String.raw`(?=[\w-]{0,60}\d)[\w-]{20,}`),
  format("github_token", "github_pat_|gh[opusr]_", String.raw`\w{20,}`),
  format("gitlab_token", "gl(?:pat|rt|ptt|dt|cbt|soat|agent|ft)-", String.raw`[\w.-]{16,}`),
  format("slack_token", "xox[abceoprs][.-]|xapp-", String.raw`[\w.-]{10,}`),
  format("aws_key", "AKIA|ASIA|ABIA|ACCA", "[0-9A-Z]{16}(?![0-9A-Z])"),
  format("google_key", "AIza", String.raw`[\w-]{30,}`),
  format("google_key", String.raw`ya29\.|GOCSPX-`, String.raw`[\w-]{20,}`),
  format("huggingface_token", "hf_", "[A-Za-z0-9]{20,}"),
  format("npm_token", "npm_", "[A-Za-z0-9]{30,}"),
  format("sendgrid_key", String.raw`SG\.`, String.raw`[\w-]{16,200}\.[\w-]{16,}`),
  format("hango_key", "hango_", "[A-Za-z0-9]{32,}"),
  format("jwt", "eyJ", String.raw`[\w-]{8,1500}\.[\w-]{8,}(?:\.[\w-]*)*`),
  format("other_token", "SK", "[0-9a-f]{32}(?![0-9A-Za-z])"),
  format("other_token", "key-", "[0-9a-f]{32}(?![0-9A-Za-z])"),
  format("other_token", "secret_", String.raw`(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{32,}`),
  format("other_token", "dapi", "[0-9a-f]{32}"),
  format("other_token", "AGE-SECRET-KEY-1", "[0-9A-Z]{40,}"),
  format(
    "other_token",
    String.raw`do[opr]_v1_|shp(?:at|ss|ca|pa)_|pypi-|dckr_pat_|lin_(?:api|oauth|wh)_|sntry[su]_|hv[sbr]\.|gsk_|xai-|r8_|pplx-|nvapi-|glsa_|ATATT3|sq0(?:atp|csp)-|pscale_(?:tkn|pw)_|rubygems_|figd_|PMAK-|sb[p]_|sb_secret_|napi_|npg_|xkeysib-|ntn_|tskey-`,
    String.raw`[\w.=-]{12,}`,
  ),
];

const BEGINNING = new RegExp(FORMATS.map(({ begins }) => `(${begins})`).join("|"), "g");

/** What makes the letter before a token no part of a word: the `n` of a written `\n`, `%3D` in a URL, the end of a terminal's colour. */
const ESCAPE_BEFORE = /(?:\\(?:[nrtbfv0]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|%[0-9a-fA-F]{2}|\p{Cc}\[[\d;]{0,12}m)$/u;
const LONGEST_ESCAPE = 16;

const isWord = (unit: number): boolean =>
  (unit >= 0x30 && unit <= 0x39) || (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x61 && unit <= 0x7a) || unit === 0x5f;

/** A token begins a word: "task-force" holds none. */
const beginsWord = (text: string, at: number): boolean =>
  at === 0 || !isWord(text.charCodeAt(at - 1)) || ESCAPE_BEFORE.test(text.slice(Math.max(0, at - LONGEST_ESCAPE), at));

/** A token of which a cut left too little to be known by its length: as much of it as is there, before the note of the cut. */
const CUT_OFF = /(?=[\w-]{0,40}\d)[\w-]{4,}(?=…|\.{3}|\s?\[(?:\.{3}|…))/y;

/** The token that begins here, if there is enough of it. @param which of the formats it begins like */
const tokenAt = (text: string, at: number, begins: string, which: number): Found | undefined => {
  const known = FORMATS[which];
  if (known === undefined) return undefined;
  const { kind, whole } = known;
  whole.lastIndex = at;
  if (whole.test(text)) return { start: at, end: whole.lastIndex, kind };
  if (kind === "other_token") return undefined;
  CUT_OFF.lastIndex = at + begins.length;
  return CUT_OFF.test(text) ? { start: at, end: CUT_OFF.lastIndex, kind } : undefined;
};

/** Tokens with a known beginning. */
export const findTokens: Finder = (text) => {
  const found: Found[] = [];
  let end = -1;
  BEGINNING.lastIndex = 0;
  for (let match = BEGINNING.exec(text); match !== null; match = BEGINNING.exec(text)) {
    const at = match.index;
    // Right after a token another one may begin; what the first left behind would begin a word the next time.
    const token =
      at === end || beginsWord(text, at) ? tokenAt(text, at, match[0], match.indexOf(match[0], 1) - 1) : undefined;
    if (token === undefined) {
      BEGINNING.lastIndex = at + 1;
      continue;
    }
    found.push(token);
    end = token.end;
    BEGINNING.lastIndex = end;
  }
  return found;
};
