/** Tokens known by their first characters: the vendors' own documented formats. */
import type { Finder, Found, SecretKind } from "./found.ts";

interface Format {
  readonly kind: SecretKind;
  /** The whole of it, from its beginning on. */
  readonly whole: RegExp;
}

const formats = new Map<string, Format>();

/** @param begins how it begins, word for word; several are divided by spaces. What is more exact is named first */
const format = (kind: SecretKind, begins: string, rest: string): void => {
  for (const beginning of begins.split(" ")) {
    const literal = beginning.replaceAll(".", "\\.");
    if (!formats.has(beginning)) formats.set(beginning, { kind, whole: new RegExp(`${literal}${rest}`, "y") });
  }
};

format("anthropic_key", "sk-ant-", String.raw`[\w-]{16,9000}`);
format("stripe_key", "sk_live_ rk_live_ pk_live_ sk_test_ rk_test_ pk_test_ whsec_", String.raw`[\w+/]{16,9000}={0,2}`);
format("openai_key", "sk-", String.raw`(?=[\w-]{0,60}\d)[\w-]{20,9000}`);
format("github_token", "github_pat_ ghp_ gho_ ghu_ ghs_ ghr_", String.raw`\w{20,9000}`);
format("gitlab_token", "glpat- glrt- glptt- gldt- glcbt- glsoat- glagent- glft-", String.raw`[\w.-]{16,9000}`);
format("slack_token", "xoxa- xoxb- xoxc- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp-", String.raw`[\w.-]{10,9000}`);
format("aws_key", "AKIA ASIA ABIA ACCA", "[0-9A-Z]{16}(?![0-9A-Z])");
format("google_key", "AIza", String.raw`[\w-]{30,9000}`);
format("google_key", "ya29. GOCSPX-", String.raw`[\w-]{20,9000}`);
format("huggingface_token", "hf_", "[A-Za-z0-9]{20,9000}");
format("npm_token", "npm_", "[A-Za-z0-9]{30,9000}");
format("sendgrid_key", "SG.", String.raw`[\w-]{16,200}\.[\w-]{16,9000}`);
format("hango_key", "hango_", "[A-Za-z0-9]{32,9000}");
format("jwt", "eyJ", String.raw`[\w-]{8,1500}\.[\w-]{8,9000}(?:\.[\w-]{0,9000}){0,5}`);
format("other_token", "SK", "[0-9a-f]{32}(?![0-9A-Za-z])");
format("other_token", "key-", "[0-9a-f]{32}(?![0-9A-Za-z])");
format("other_token", "secret_", String.raw`(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{32,9000}`);
format("other_token", "dapi", "[0-9a-f]{32}");
format("other_token", "AGE-SECRET-KEY-1", "[0-9A-Z]{40,9000}");
format(
  "other_token",
  `dop_v1_ doo_v1_ dor_v1_ shpat_ shpss_ shpca_ shppa_ pypi- dckr_pat_ lin_api_ lin_oauth_ lin_wh_ sntrys_ sntryu_ hvs. hvb. hvr. gsk_ xai- r8_ pplx-
   nvapi- glsa_ ATATT3 sq0atp- sq0csp- pscale_tkn_ pscale_pw_ rubygems_ figd_ PMAK- sbp_ sb_secret_ napi_ npg_ xkeysib- ntn_ tskey-`.replace(
    /\s+/g,
    " ",
  ),
  String.raw`[\w.=-]{12,9000}`,
);

/** Literals alone, which is the fastest that a pattern can look for; the longer of two with one beginning first. */
const BEGINNING = new RegExp(
  [...formats.keys()]
    .sort((a, b) => b.length - a.length)
    .map((beginning) => beginning.replaceAll(".", "\\."))
    .join("|"),
  "g",
);

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

/** Most units that one pattern takes at a time. */
const PIECE = 9_000;
const MORE = /[\w-]{1,9000}/y;

/** The token that begins here, if there is enough of it. */
const tokenAt = (text: string, at: number, begins: string): Found | undefined => {
  const known = formats.get(begins);
  if (known === undefined) return undefined;
  const { kind, whole } = known;
  whole.lastIndex = at;
  if (whole.test(text)) {
    let end = whole.lastIndex;
    // In pieces, since a pattern that goes on for megabytes runs out of stack.
    for (MORE.lastIndex = end; end - at >= PIECE && MORE.test(text); end = MORE.lastIndex);
    return { start: at, end, kind };
  }
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
    const token = at === end || beginsWord(text, at) ? tokenAt(text, at, match[0]) : undefined;
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
