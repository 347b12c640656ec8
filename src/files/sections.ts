/** How the sections of a file become one file: order, what is hidden, where each lies. Pure; used by every backend. */

import { sha256Hex } from "../protocol/sha256.ts";
import type { ByteRange, FileEntry, SectionKey, SectionSpan } from "./filesystem.ts";
import { joinIndexes, type LineIndex } from "./line-index.ts";

/** One stored section, as a backend lists it. */
export interface StoredSection {
  readonly key: SectionKey;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly etag: string;
  readonly lines: LineIndex;
}

/** Sections of text are Markdown: the history (context.md S4). */
export const SECTION_CONTENT_TYPE = "text/markdown; charset=utf-8";

/** Digits of the largest safe integer, so that names sort like numbers. */
const DIGITS = 16;

/** The name of a section's object: sorts by first, then last. @throws RangeError for a key that is no range */
export const sectionName = ({ first, last }: SectionKey): string => {
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || first < 0 || last < first) {
    throw new RangeError(`a section's key is a range of non-negative integers, not ${first}-${last}`);
  }
  return [first, last].map((seq) => String(seq).padStart(DIGITS, "0")).join("-");
};

/** The key in an object's name, or undefined where it is none. */
export const parseSectionName = (name: string): SectionKey | undefined => {
  const match = /^(\d{16})-(\d{16})$/.exec(name);
  return match === null ? undefined : { first: Number(match[1]), last: Number(match[2]) };
};

/** The sections that are shown, in order: one whose range lies within another's is left out (M1). */
export const shownSections = <Section extends { readonly key: SectionKey }>(
  sections: readonly Section[],
): readonly Section[] => {
  const ordered = [...sections].sort((a, b) => a.key.first - b.key.first || b.key.last - a.key.last);
  let last = -1;
  return ordered.filter(({ key }) => {
    const shown = key.last > last;
    if (shown) last = key.last;
    return shown;
  });
};

/** Everything `stat` says of a sectioned file but its path. */
export interface JoinedSections extends Omit<FileEntry, "path"> {
  readonly sectioned: true;
  readonly lines: LineIndex;
  readonly sections: readonly SectionSpan[];
}

/** @param shown what `shownSections` answered; not empty */
export const joinSections = async (shown: readonly StoredSection[]): Promise<JoinedSections> => {
  let sizeBytes = 0;
  let newlines = 0;
  const sections = shown.map((section) => {
    const span = { key: section.key, offsetBytes: sizeBytes, sizeBytes: section.sizeBytes, newlinesBefore: newlines };
    sizeBytes += section.sizeBytes;
    newlines += section.lines.newlines;
    return span;
  });
  const versions = shown.map(({ key, etag }) => `${sectionName(key)} ${etag}`).join("\n");
  return {
    sizeBytes,
    modifiedMs: Math.max(...shown.map((section) => section.modifiedMs)),
    etag: (await sha256Hex(versions)).slice(0, 32),
    sectioned: true,
    lines: joinIndexes(shown),
    sections,
  };
};

/** Which part of which section a range needs. */
export const sectionsOfRange = <Section extends { readonly sizeBytes: number }>(
  shown: readonly Section[],
  range: ByteRange,
): readonly { readonly section: Section; readonly range: ByteRange }[] => {
  const endBytes = range.offsetBytes + range.lengthBytes;
  let startBytes = 0;
  return shown.flatMap((section) => {
    const from = Math.max(range.offsetBytes, startBytes);
    const to = Math.min(endBytes, startBytes + section.sizeBytes);
    const part = { section, range: { offsetBytes: from - startBytes, lengthBytes: to - from } };
    startBytes += section.sizeBytes;
    return to > from ? [part] : [];
  });
};

export const joinBytes = (parts: readonly Uint8Array[]): Uint8Array => {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
};

/** Merges a page of objects with sectioned files into one page; an object hides sections of the same path. */
export const mergePages = (
  objects: readonly FileEntry[],
  objectsTruncated: boolean,
  sectioned: readonly FileEntry[],
  limit: number,
  compare: (a: string, b: string) => number,
): { readonly files: readonly FileEntry[]; readonly cursor?: string } => {
  const boundary = objectsTruncated ? objects.at(-1)?.path : undefined;
  const taken = new Set<string>(objects.map(({ path }) => path));
  const merged = [
    ...objects,
    ...sectioned.filter(({ path }) => !taken.has(path) && (boundary === undefined || compare(path, boundary) <= 0)),
  ].sort((a, b) => compare(a.path, b.path));
  const files = merged.slice(0, limit);
  const last = files.at(-1)?.path;
  return (objectsTruncated || merged.length > limit) && last !== undefined ? { files, cursor: last } : { files };
};
