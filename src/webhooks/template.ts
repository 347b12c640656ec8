/**
 * Templates over a payload: Mustache without its HTML escaping, without partials, with bounds. It has no expressions and needs no
 * `eval`, which Workers forbid.
 */
import Mustache from "mustache";
import { besideSecret } from "../protocol/redact.ts";

/** Most steps (tags and pieces of text, repetitions included) of one rendering: lists nested in lists multiply. */
const MAX_STEPS = 20_000;

/** Says that a rendering was cut at its bound. */
const CUT_NOTE = "\n[cut: the text is too long]";

type Tokens = ReturnType<typeof Mustache.parse>;

export interface RenderOptions {
  /** Longest result, in characters; what is longer is cut, and says so. */
  readonly maxChars: number;
  /** What becomes of a value: how it is quoted, fenced or encoded. Values are text; objects and lists their JSON. */
  readonly write: (value: string) => string;
}

/** Why a template cannot be used, in words that stand after the name of the field; null when it can. */
export const templateProblem = (template: string): string | null => {
  let tokens: Tokens;
  try {
    tokens = new Mustache.Writer().parse(template);
  } catch (error) {
    return `is no Mustache template: ${error instanceof Error ? error.message : "it does not parse"}`;
  }
  return flat(tokens).some(([type]) => type === ">") ? "must not use partials ({{> name}})" : null;
};

const isTokens = (value: unknown): value is Tokens => Array.isArray(value);

/** The tokens of a template, those of its sections included. */
const flat = (tokens: Tokens): readonly Tokens[number][] =>
  tokens.flatMap((token): Tokens[number][] => [token, ...(isTokens(token[4]) ? flat(token[4]) : [])]);

/** The names that a template looks up, sections included. */
export const templateNames = (template: string): readonly string[] =>
  flat(new Mustache.Writer().parse(template)).flatMap(([type, name]) =>
    ["name", "&", "#", "^"].includes(type) ? [name] : [],
  );

/** The text before the first tag. */
export const literalStart = (template: string): string => {
  const first = template.indexOf("{{");
  return first === -1 ? template : template.slice(0, first);
};

/** The value as text: what is no text as its JSON. */
const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/** The view without anything inherited: a name such as `constructor` in a template finds what the payload holds, or nothing. */
const bare = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(bare);
  if (typeof value !== "object" || value === null) return value;
  return Object.assign(
    Object.create(null),
    Object.fromEntries(Object.entries(value).map(([name, member]) => [name, bare(member)])),
  );
};

/** Thrown within a rendering to end it. */
class Bound extends Error {}

/** @throws Error for a template that does not parse, or a name that leads into a list's own functions */
export const render = (template: string, view: object, { maxChars, write }: RenderOptions): string => {
  const writer = new Mustache.Writer();
  // The cache of the library belongs to the isolate; this writer belongs to this rendering.
  const pieces: string[] = [];
  let chars = 0;
  let steps = 0;
  const add = (piece: string): string => {
    steps += 1;
    chars += piece.length;
    pieces.push(piece);
    if (steps > MAX_STEPS || chars > maxChars) throw new Bound();
    return piece;
  };
  const value = (token: string[], context: { lookup(name: string): unknown }): string => {
    const found = context.lookup(token[1] ?? "");
    return found === undefined || found === null || typeof found === "function" ? "" : add(write(textOf(found)));
  };
  const enter = writer.renderTokens.bind(writer);
  const bounded = {
    renderTokens: (...given: Parameters<typeof enter>): string => {
      // An empty section that is repeated writes nothing and still takes its time.
      steps += 1;
      if (steps > MAX_STEPS) throw new Bound();
      return enter(...given);
    },
    rawValue: (token: string[]) => add(token[1] ?? ""),
    escapedValue: value,
    unescapedValue: value,
    renderPartial: () => "",
  };
  Object.assign(writer, bounded);
  try {
    writer.render(template, bare(view));
    return pieces.join("");
  } catch (error) {
    if (!(error instanceof Bound)) throw error;
    const text = pieces.join("");
    // Half a secret would be recognised by nothing that reads the prompt later (S6).
    return text.slice(0, besideSecret(text, maxChars).before).toWellFormed() + CUT_NOTE;
  }
};
