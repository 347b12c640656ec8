/**
 * Media in content text (rule V10): takes large base64 payloads out of a message's JSON text and puts them back, byte for byte.
 *
 * A payload is the `data` string of an object whose `type` is `base64`, found through `source` and `content` members: image and
 * document blocks, tool results, documents made of blocks, results of server tools. Tool inputs are never looked into.
 */
import { arrayElements, type Member, objectMembers, type Span } from "./json-text.ts";
import { isPdf, pdfPages } from "./pdf-pages.ts";

/** Payloads longer than this, in UTF-16 units of JSON text, leave the row (V10: 64 KB). */
export const MEDIA_INLINE_LIMIT = 65_536;

const REFERENCE = "hango:media/sha256-";

/** A reference: the hash, and of a PDF its pages, which decide what it costs and cannot be seen without it (E2). */
const referenceTo = (hash: string, payload: string): string =>
  `${REFERENCE}${hash}${isPdf(payload) ? `;pages=${pdfPages(payload)}` : ""}`;

/** The hash of a reference's text. */
const hashOf = (reference: string): string => reference.slice(REFERENCE.length).split(";", 1)[0] ?? "";

/** Stores a payload (the JSON string's text between its quotes) and answers its hash, 64 hex digits. */
export type PutMedia = (text: string) => Promise<string>;

/** Deepest nesting of blocks that is searched; real content needs 4. Bounds the work, since each level is scanned again. */
const MAX_DEPTH = 8;

/** The places of all payloads, quotes left out, in order. */
const payloads = (text: string, from: number, depth: number): readonly Span[] => {
  if (depth > MAX_DEPTH) return [];
  if (text[from] === "[")
    return arrayElements(text, from).flatMap((element) => payloads(text, element.start, depth + 1));
  if (text[from] !== "{") return [];
  const members = objectMembers(text, from);
  const data = member(members, "data");
  const type = member(members, "type");
  if (data !== undefined && text[data.start] === '"' && type !== undefined && isText(text, type, "base64")) {
    return [{ start: data.start + 1, end: data.end - 1 }];
  }
  return members
    .filter(({ key }) => key === "source" || key === "content")
    .flatMap(({ start }) => payloads(text, start, depth + 1));
};

const member = (members: readonly Member[], key: string): Member | undefined =>
  members.findLast((each) => each.key === key);

const isText = (text: string, span: Span, wanted: string): boolean =>
  span.end - span.start < 100 && text[span.start] === '"' && JSON.parse(text.slice(span.start, span.end)) === wanted;

const contentPayloads = (text: string): readonly Span[] => payloads(text, text.search(/[^ \n\r\t]/), 0);

const replaceSpans = (text: string, spans: readonly Span[], by: readonly string[]): string => {
  const pieces: string[] = [];
  let copied = 0;
  spans.forEach((span, index) => {
    pieces.push(text.slice(copied, span.start), by[index] ?? text.slice(span.start, span.end));
    copied = span.end;
  });
  pieces.push(text.slice(copied));
  return pieces.join("");
};

/**
 * Replaces payloads over `MEDIA_INLINE_LIMIT` by references; every other byte stays (V9, V10).
 * A shorter payload that already reads like a reference is stored too, so that a reference in stored text is always ours.
 * @param contentText the JSON text of a content array
 * @returns the text to store and the hashes it refers to, in order of first appearance
 * @throws what `put` throws
 */
export const externaliseMedia = async (
  contentText: string,
  put: PutMedia,
): Promise<{ readonly content: string; readonly media: readonly string[] }> => {
  const nothing = { content: contentText, media: [] };
  if (contentText.length <= MEDIA_INLINE_LIMIT && !contentText.includes(REFERENCE)) return nothing;
  if (!contentText.includes("base64")) return nothing;
  const spans = contentPayloads(contentText).filter(
    ({ start, end }) => end - start > MEDIA_INLINE_LIMIT || contentText.startsWith(REFERENCE, start),
  );
  if (spans.length === 0) return nothing;
  const hashes: string[] = [];
  // One at a time: two payloads in flight would double the memory of a large message.
  const references: string[] = [];
  for (const { start, end } of spans) {
    const payload = contentText.slice(start, end);
    const hash = await put(payload);
    hashes.push(hash);
    references.push(referenceTo(hash, payload));
  }
  return { content: replaceSpans(contentText, spans, references), media: [...new Set(hashes)] };
};

/**
 * Puts the payloads back: the inverse of `externaliseMedia`.
 * @param media the hashes that the text refers to; other references are left as they are
 * @param load answers the payload of a hash
 * @throws what `load` throws
 */
export const inlineMedia = async (
  contentText: string,
  media: readonly string[],
  load: (hash: string) => Promise<string>,
): Promise<string> => {
  if (media.length === 0) return contentText;
  const known = new Set(media);
  const spans = contentPayloads(contentText).filter(
    ({ start, end }) => contentText.startsWith(REFERENCE, start) && known.has(hashOf(contentText.slice(start, end))),
  );
  const loaded = new Map<string, string>();
  for (const { start, end } of spans) {
    const hash = hashOf(contentText.slice(start, end));
    if (!loaded.has(hash)) loaded.set(hash, await load(hash));
  }
  const texts = spans.map(({ start, end }) => loaded.get(hashOf(contentText.slice(start, end))) ?? "");
  return replaceSpans(contentText, spans, texts);
};
