/** Whether what was emitted shows any of what was said: secrets, planted words, and every slice of content of a certain length. */
import { leaked } from "./secrets.ts";

/** Shortest slice that counts as content, in characters: shorter ones are names and ids. */
export const SLICE_CHARS = 40;

/**
 * Grams of this length, one at every `STRIDE` characters of the content: any slice of `SLICE_CHARS` holds one of them whole, so that every place of what
 * is checked can be looked up and little has to be kept.
 */
const STRIDE = 20;
const GRAM_CHARS = SLICE_CHARS - STRIDE + 1;

/** Every text in a value as JSON has it, names of members included. */
export const textsOf = (value: unknown, into: Set<string> = new Set()): Set<string> => {
  if (typeof value === "string") into.add(value);
  else if (Array.isArray(value)) for (const each of value) textsOf(each, into);
  else if (value !== null && typeof value === "object")
    for (const [name, inner] of Object.entries(value)) {
      into.add(name);
      textsOf(inner, into);
    }
  return into;
};

export interface ContentIndex {
  /** How many texts it was made of. */
  readonly texts: number;
  /** The first slice of `SLICE_CHARS` that the text shares with any content. */
  find(text: string): string | undefined;
}

/** Makes an index over all content. */
export const contentIndex = (contents: Iterable<string>): ContentIndex => {
  const places = new Map<string, { readonly text: string; readonly at: number }[]>();
  const whole = new Set(contents);
  for (const text of whole)
    for (let at = 0; at + GRAM_CHARS <= text.length; at += STRIDE) {
      const gram = text.slice(at, at + GRAM_CHARS);
      const known = places.get(gram);
      if (known === undefined) places.set(gram, [{ text, at }]);
      else if (known.length < MOST_PLACES) known.push({ text, at });
    }
  const shared = (text: string, at: number, place: { readonly text: string; readonly at: number }) => {
    let before = 0;
    while (before < at && before < place.at && text[at - before - 1] === place.text[place.at - before - 1]) before += 1;
    let length = 0;
    while (at + length < text.length && text[at + length] === place.text[place.at + length]) length += 1;
    return text.slice(at - before, at + length);
  };
  return {
    texts: whole.size,
    find: (text) => {
      for (let at = 0; at + GRAM_CHARS <= text.length; at++)
        for (const place of places.get(text.slice(at, at + GRAM_CHARS)) ?? []) {
          const slice = shared(text, at, place);
          if (slice.length >= SLICE_CHARS) return slice;
        }
      return undefined;
    },
  };
};

/** Of a gram that stands in many texts, which are mostly the same text grown longer. */
const MOST_PLACES = 50;

/** What the Worker let out. */
export interface Emitted {
  /** Bodies of OTLP, as JSON text. */
  readonly bodies: readonly string[];
  readonly lines: readonly string[];
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

export interface Rules {
  /** Any planted word. */
  readonly marker: RegExp;
  readonly index: ContentIndex;
  /** What may be told although content holds it: taken out before the check for content. */
  readonly allowed: RegExp;
  /** Ids, which are no content where they stand alone. */
  readonly ids: ReadonlySet<string>;
}

/** Says of each leak what it is and where, in words; empty when there is none. */
export const leaksIn = ({ bodies, lines }: Emitted, { marker, index, allowed, ids }: Rules): readonly string[] => {
  const emitted = [...bodies, ...lines];
  const texts = new Set<string>();
  for (const text of emitted) textsOf(parsed(text), texts);
  // As it went over the wire, and as whoever reads it sees it.
  const found = leaked(emitted.join("\n")).map((kind) => `secret (${kind})`);
  for (const text of texts) {
    const where = `in ${JSON.stringify(text.slice(0, 300))}`;
    for (const kind of leaked(text)) found.push(`secret (${kind}) ${where}`);
    const kept = text.replace(allowed, "\u0000");
    const word = marker.exec(kept)?.[0];
    if (word !== undefined) found.push(`planted word ${word} ${where}`);
    const slice = ids.has(text) ? undefined : index.find(kept);
    if (slice !== undefined) found.push(`content ${JSON.stringify(slice)} ${where}`);
  }
  return [...new Set(found)];
};
