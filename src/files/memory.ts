/** A filesystem in memory: for tests, and for whoever embeds the agent without R2. */

import { sha256Hex } from "../protocol/sha256.ts";
import { contentTypeOf } from "./content-type.ts";
import type { FileEntry, FileSystem, SectionKey } from "./filesystem.ts";
import { indexLines } from "./line-index.ts";
import { comparePaths, type FilePath } from "./path.ts";
import {
  joinBytes,
  joinSections,
  mergePages,
  SECTION_CONTENT_TYPE,
  type StoredSection,
  sectionName,
  sectionsOfRange,
  shownSections,
} from "./sections.ts";

interface StoredObject {
  readonly bytes: Uint8Array;
  readonly etag: string;
  readonly modifiedMs: number;
  readonly contentType: string;
}

interface MemorySection extends StoredSection {
  readonly bytes: Uint8Array;
}

const toBytes = (content: Uint8Array | string): Uint8Array =>
  typeof content === "string" ? new TextEncoder().encode(content) : content.slice();

/** @param clock the time in ms since the epoch */
export const memoryFileSystem = (clock: () => number): FileSystem => {
  const objects = new Map<FilePath, StoredObject>();
  const sections = new Map<FilePath, Map<string, MemorySection>>();

  const shownAt = (path: FilePath): readonly MemorySection[] =>
    shownSections([...(sections.get(path)?.values() ?? [])]);

  const entryOf = (path: FilePath, { bytes, etag, modifiedMs }: StoredObject): FileEntry => ({
    path,
    sizeBytes: bytes.length,
    modifiedMs,
    etag,
  });

  return {
    stat: async (path) => {
      const object = objects.get(path);
      if (object !== undefined) {
        return { ...entryOf(path, object), contentType: object.contentType, lines: indexLines(object.bytes) };
      }
      const shown = shownAt(path);
      return shown.length === 0
        ? undefined
        : { path, contentType: SECTION_CONTENT_TYPE, ...(await joinSections(shown)) };
    },

    read: async (path, { range, objectOnly = false } = {}) => {
      const object = objects.get(path);
      if (object !== undefined) {
        const { bytes, etag, contentType } = object;
        const part =
          range === undefined ? bytes.slice() : bytes.slice(range.offsetBytes, range.offsetBytes + range.lengthBytes);
        return { bytes: part, etag, sizeBytes: bytes.length, contentType };
      }
      const shown = objectOnly ? [] : shownAt(path);
      if (shown.length === 0) return undefined;
      const { sizeBytes, etag } = await joinSections(shown);
      const parts = sectionsOfRange(shown, range ?? { offsetBytes: 0, lengthBytes: sizeBytes });
      const bytes = joinBytes(
        parts.map(({ section, range: part }) =>
          section.bytes.subarray(part.offsetBytes, part.offsetBytes + part.lengthBytes),
        ),
      );
      return { bytes, etag, sizeBytes, contentType: SECTION_CONTENT_TYPE };
    },

    write: async (path, content, { ifMatch, ifNoneMatch, contentType } = {}) => {
      const bytes = toBytes(content);
      const etag = (await sha256Hex(bytes)).slice(0, 32);
      // Nothing is awaited from here on: the comparison and the swap are one step.
      const current = objects.get(path);
      if (ifMatch !== undefined && current?.etag !== ifMatch) return { conflict: true };
      if (ifNoneMatch !== undefined && current !== undefined) return { conflict: true };
      objects.set(path, { bytes, etag, modifiedMs: clock(), contentType: contentType ?? contentTypeOf(path, bytes) });
      return { etag };
    },

    append: async (path, section, key: SectionKey) => {
      const bytes = toBytes(section);
      const sha256 = await sha256Hex(bytes);
      const stored = {
        key,
        bytes,
        sizeBytes: bytes.length,
        modifiedMs: clock(),
        etag: sha256.slice(0, 32),
        lines: indexLines(bytes),
      };
      const ofPath = sections.get(path) ?? new Map<string, MemorySection>();
      sections.set(path, ofPath.set(sectionName(key), stored));
      return { sizeBytes: bytes.length, sha256 };
    },

    remove: async (path) => {
      const hadObject = objects.delete(path);
      const hadSections = sections.delete(path);
      return hadObject || hadSections;
    },

    list: async ({ prefix, limit, cursor = "", objectOnly = false }) => {
      const inPage = (path: string): boolean => path.startsWith(prefix) && comparePaths(path, cursor) > 0;
      const entries = [...objects].filter(([path]) => inPage(path)).map(([path, object]) => entryOf(path, object));
      entries.sort((a, b) => comparePaths(a.path, b.path));
      const sectioned = await Promise.all(
        [...(objectOnly ? [] : sections.keys())].filter(inPage).map(async (path) => {
          const { sizeBytes, modifiedMs, etag } = await joinSections(shownAt(path));
          return { path, sizeBytes, modifiedMs, etag, sectioned: true } as const;
        }),
      );
      return mergePages(entries.slice(0, limit), entries.length > limit, sectioned, limit, comparePaths);
    },

    folders: async (directory, limit) => {
      const inside = [...objects.keys()].filter((path) => path.startsWith(directory));
      const names = inside.map((path) => path.slice(directory.length).split("/")).filter(({ length }) => length > 1);
      return [...new Set(names.map(([name = ""]) => name))].sort(comparePaths).slice(0, limit);
    },

    removeAll: async () => {
      const count = objects.size + [...sections.values()].reduce((sum, ofPath) => sum + ofPath.size, 0);
      objects.clear();
      sections.clear();
      return count;
    },
  };
};
