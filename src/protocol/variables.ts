/** How a variable of the environment is described, read and complained about. Used by the Worker's schema and the local runner's. */
import { z } from "zod";

export interface VariableMeta {
  /** For the documentation: what it does. */
  readonly description: string;
  /** What it may be, in words that follow "allowed:". */
  readonly allowed: string;
  /** As one would write it; absent where there is none. */
  readonly default?: string;
  /** Never shown, not even when wrong. */
  readonly secret?: boolean;
  readonly kind: "variable" | "binding";
}

type Described = Omit<VariableMeta, "kind">;

/** Turns the text of a variable into its value; undefined when it is none of the allowed. */
type Read<T> = (text: string) => T | undefined;

const LONGEST_QUOTE = 80;

/** What was given, for an error message; secrets stay hidden. */
const quote = (text: string, secret: boolean | undefined): string => {
  if (secret === true) return "(hidden)";
  return JSON.stringify(text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}...` : text);
};

/** Variables of a `wrangler.toml` may be numbers, booleans or JSON; hango reads them all as text. */
const asText = (given: unknown): string | undefined => {
  if (given === undefined || given === null || given === "") return undefined;
  return typeof given === "string" ? given : JSON.stringify(given);
};

const field = <T, Missing>(meta: Described, read: Read<T>, missing: () => { value: Missing } | { problem: string }) =>
  z
    .unknown()
    .transform((given, context): T | Missing => {
      const text = asText(given);
      const result = text === undefined ? missing() : { value: read(text) };
      const problem = "problem" in result ? result.problem : undefined;
      if (problem === undefined && "value" in result && (text === undefined || result.value !== undefined))
        return result.value as T | Missing;
      const fallback = meta.default === undefined ? "" : `; default ${meta.default}`;
      const message = problem ?? `got ${quote(text ?? "", meta.secret)}; allowed: ${meta.allowed}${fallback}`;
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    })
    .meta({ ...meta, kind: "variable" });

/** The three sorts of variables: must be set, has a default, may be absent. Empty counts as absent. */
export const variable = {
  required: <T>(meta: Omit<Described, "default">, read: Read<T>) =>
    field<T, never>({ ...meta }, read, () => ({ problem: `not set; required: ${meta.allowed}` })),
  defaulted: <T>(meta: Described & { readonly default: string }, read: Read<T>) =>
    field<T, T>(meta, read, () => {
      const value = read(meta.default);
      return value === undefined ? { problem: `has a wrong default: ${meta.default}` } : { value };
    }),
  optional: <T>(meta: Omit<Described, "default">, read: Read<T>) =>
    field<T, undefined>({ ...meta }, read, () => ({ value: undefined })),
};

const text =
  (pattern: RegExp): Read<string> =>
  (given) =>
    pattern.test(given) ? given : undefined;

const wholeNumber = Object.assign(
  (min: number, max: number): Read<number> =>
    (given) => {
      if (!/^\d{1,15}$/.test(given)) return undefined;
      const value = Number(given);
      return value >= min && value <= max ? value : undefined;
    },
  { words: (min: number, max: number) => ({ allowed: `a whole number from ${min} to ${max}` }) },
);

/** A share, strictly between none and all (E7). */
const fraction = Object.assign(
  (given: string): number | undefined => {
    if (!/^0?\.\d{1,15}$/.test(given)) return undefined;
    const value = Number(given);
    return value > 0 ? value : undefined;
  },
  { words: { allowed: "a fraction between 0 and 1, both excluded" } },
);

const TRUTH: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
]);

const truth = Object.assign((given: string): boolean | undefined => TRUTH.get(given), {
  words: { allowed: "true, false, 1 or 0" },
});

const oneOf = Object.assign(
  <const T extends string>(options: readonly T[]): Read<T> =>
    (given) =>
      options.find((option) => option === given),
  { words: (options: readonly string[]) => ({ allowed: `one of ${options.join(", ")}` }) },
);

const url =
  (protocols: readonly string[]): Read<string> =>
  (given) => {
    const parsed = URL.parse(given);
    return parsed !== null && protocols.includes(parsed.protocol) && parsed.hostname !== "" ? given : undefined;
  };

/** `name=value,name=value`, as OpenTelemetry's own variables are written. */
const headerList: Read<Readonly<Record<string, string>>> = (given) => {
  const pairs: [string, string][] = [];
  for (const pair of given.split(",")) {
    const [, name, value] = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name === undefined || value === undefined) return undefined;
    try {
      pairs.push([name.toLowerCase(), decodeURIComponent(value)]);
    } catch {
      return undefined;
    }
  }
  return Object.fromEntries(pairs);
};

export const readers = { text, wholeNumber, fraction, truth, oneOf, url, headerList };

/** One line for an issue of the schema: the variable, then what is wrong. */
export const problemOf = (issue: z.core.$ZodIssue): string => `${issue.path.join(".")}: ${issue.message}`;

/**
 * A line for each `HANGO_` variable that nobody reads: it is a typing error more often than not.
 * @param given names that are set
 * @param known names that are read
 */
export const unknownVariables = (given: readonly string[], known: readonly string[]): readonly string[] =>
  given
    .filter((name) => name.startsWith("HANGO_") && !known.includes(name))
    .map((name) => `${name}: unknown; the closest known variable is ${closest(name, known)}`);

const closest = (name: string, known: readonly string[]): string =>
  known.reduce((best, candidate) => (editDistance(name, candidate) < editDistance(name, best) ? candidate : best));

/** Levenshtein's distance: characters to insert, delete or replace. */
const editDistance = (a: string, b: string): number => {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 0; i < a.length; i++) {
    const current = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (previous[j] ?? 0) + (a[i] === b[j] ? 0 : 1);
      current.push(Math.min(replaced, (previous[j + 1] ?? 0) + 1, (current[j] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
};
