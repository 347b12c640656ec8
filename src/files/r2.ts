/**
 * The filesystem on R2. Keys, under `tenants/{tenant}/sessions/{session}`:
 * - `files{path}`: a file that was written;
 * - `sections{path}//{first}-{last}`: one section of a file that is appended to. A path never holds "//", so that the sections of
 *   `/a` and of `/a/b` cannot meet;
 * - `media/{hash}`: `media.ts`.
 */

import { sha256Hex } from "../protocol/sha256.ts";
import { contentTypeOf } from "./content-type.ts";
import type { ByteRange, FileEntry, FileStat, FileSystem, SectionKey } from "./filesystem.ts";
import { formatIndex, indexLines, parseIndex } from "./line-index.ts";
import { comparePaths, type FilePath } from "./path.ts";
import {
  joinBytes,
  joinSections,
  mergePages,
  parseSectionName,
  SECTION_CONTENT_TYPE,
  type StoredSection,
  sectionName,
  sectionsOfRange,
  shownSections,
} from "./sections.ts";

/** Metadata key of the line index. */
const LINES = "lines";
/** Largest page that R2 lists and largest batch that it deletes (platform.md). */
const PAGE = 1_000;
/** R2 takes one write per second and key (platform.md): waits that outlast a burst of edits of one file. */
const RATE_LIMIT_WAITS_MS: readonly number[] = [400, 800, 1_600, 2_400];
/** R2's error for a key that was written within the last second. */
const RATE_LIMITED = /\b10058\b|\b429\b/;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Repeats a write that R2 refused because the key was written within the last second; nothing was stored by it. */
export const withRateLimitRetries = async <Result>(
  write: () => Promise<Result>,
  sleep: (ms: number) => Promise<void>,
): Promise<Result> => {
  for (const waitMs of RATE_LIMIT_WAITS_MS) {
    try {
      return await write();
    } catch (error) {
      if (!RATE_LIMITED.test(messageOf(error))) throw error;
      await sleep(waitMs);
    }
  }
  return write();
};

/** Deletes every object whose key begins with a prefix. @returns how many */
export const removePrefix = async (bucket: R2Bucket, prefix: string): Promise<number> => {
  let removed = 0;
  for (;;) {
    // From the start every time: what the page before listed is gone.
    const page = await bucket.list({ prefix, limit: PAGE });
    if (page.objects.length > 0) await bucket.delete(page.objects.map(({ key }) => key));
    removed += page.objects.length;
    if (!page.truncated) return removed;
  }
};

const condition = (ifMatch: string | undefined, ifNoneMatch: "*" | undefined): { readonly onlyIf?: R2Conditional } => {
  if (ifMatch !== undefined) return { onlyIf: { etagMatches: ifMatch } };
  return ifNoneMatch === undefined ? {} : { onlyIf: { etagDoesNotMatch: ifNoneMatch } };
};

/** Sections of one file that are not to be shown. */
export interface Undone {
  readonly path: FilePath;
  readonly sections: readonly SectionKey[];
}

/**
 * @param root `tenants/{tenant}/sessions/{session}`, without a slash at the end
 * @param sleep waits between attempts at a key that R2 refuses to write twice in a second
 * @param undone sections of this file that meet one of these ranges are not there (R3)
 */
export const r2FileSystem = (
  bucket: R2Bucket,
  root: string,
  sleep: (ms: number) => Promise<void>,
  undone?: Undone,
): FileSystem => {
  const isUndone = (path: string, key: SectionKey): boolean =>
    undone?.path === path && undone.sections.some(({ first, last }) => key.first <= last && first <= key.last);
  const filesRoot = `${root}/files`;
  const sectionsRoot = `${root}/sections`;
  const objectKey = (path: FilePath): string => filesRoot + path;

  /** The sections under a key prefix, by path. */
  const listSections = async (keyPrefix: string): Promise<ReadonlyMap<FilePath, readonly StoredSection[]>> => {
    const found = new Map<FilePath, StoredSection[]>();
    let cursor: string | undefined;
    do {
      const page: R2Objects = await bucket.list({
        prefix: keyPrefix,
        limit: PAGE,
        include: ["customMetadata"],
        ...(cursor === undefined ? {} : { cursor }),
      });
      for (const object of page.objects) {
        const [path = "", name = ""] = object.key.slice(sectionsRoot.length).split("//");
        const key = parseSectionName(name);
        if (key === undefined || isUndone(path, key)) continue;
        const sections = found.get(path as FilePath) ?? [];
        sections.push({
          key,
          sizeBytes: object.size,
          modifiedMs: object.uploaded.getTime(),
          etag: object.etag,
          lines: parseIndex(object.customMetadata?.[LINES]) ?? indexLines(new Uint8Array()),
        });
        found.set(path as FilePath, sections);
      }
      cursor = page.truncated ? page.cursor : undefined;
    } while (cursor !== undefined);
    return found;
  };

  const shownAt = async (path: FilePath): Promise<readonly StoredSection[]> =>
    shownSections((await listSections(`${sectionsRoot}${path}//`)).get(path) ?? []);

  const sectionKey = (path: FilePath, section: Pick<StoredSection, "key">): string =>
    `${sectionsRoot}${path}//${sectionName(section.key)}`;

  /** The object's bytes; empty for a range beyond its end; undefined where there is no object. */
  const getObject = async (key: string, range: ByteRange | undefined) => {
    const head = async () => {
      const object = await bucket.head(key);
      return object === null ? undefined : { object, bytes: new Uint8Array() };
    };
    if (range?.lengthBytes === 0) return head();
    try {
      const object = await bucket.get(
        key,
        range === undefined ? {} : { range: { offset: range.offsetBytes, length: range.lengthBytes } },
      );
      return object === null ? undefined : { object, bytes: new Uint8Array(await object.arrayBuffer()) };
    } catch (error) {
      // A range that starts after the end is an error, whose text differs between R2 and its simulator: the size decides.
      const beyond = range === undefined ? undefined : await head();
      if (range === undefined || beyond === undefined || range.offsetBytes < beyond.object.size) throw error;
      return beyond;
    }
  };

  const putObject = (
    key: string,
    bytes: Uint8Array,
    contentType: string,
    onlyIf: { readonly onlyIf?: R2Conditional },
  ) =>
    withRateLimitRetries(
      () =>
        bucket.put(key, bytes, {
          ...onlyIf,
          httpMetadata: { contentType },
          customMetadata: { [LINES]: formatIndex(indexLines(bytes)) },
        }) as Promise<R2Object | null>,
      sleep,
    );

  const entryOf = (object: R2Object): FileEntry => ({
    path: object.key.slice(filesRoot.length) as FilePath,
    sizeBytes: object.size,
    modifiedMs: object.uploaded.getTime(),
    etag: object.etag,
  });

  const typeOf = (object: R2Object): string => object.httpMetadata?.contentType ?? "application/octet-stream";

  return {
    stat: async (path) => {
      const object = await bucket.head(objectKey(path));
      if (object !== null) {
        const lines = parseIndex(object.customMetadata?.[LINES]);
        return {
          ...entryOf(object),
          contentType: typeOf(object),
          ...(lines === undefined ? {} : { lines }),
        } satisfies FileStat;
      }
      const shown = await shownAt(path);
      return shown.length === 0
        ? undefined
        : { path, contentType: SECTION_CONTENT_TYPE, ...(await joinSections(shown)) };
    },

    read: async (path, { range, objectOnly = false } = {}) => {
      const got = await getObject(objectKey(path), range);
      if (got !== undefined) {
        const { object, bytes } = got;
        return { bytes, etag: object.etag, sizeBytes: object.size, contentType: typeOf(object) };
      }
      const shown = objectOnly ? [] : await shownAt(path);
      if (shown.length === 0) return undefined;
      const { sizeBytes, etag } = await joinSections(shown);
      const parts: Uint8Array[] = [];
      for (const part of sectionsOfRange(shown, range ?? { offsetBytes: 0, lengthBytes: sizeBytes })) {
        const section = await getObject(sectionKey(path, part.section), part.range);
        if (section === undefined) return undefined; // removed while being read
        parts.push(section.bytes);
      }
      return { bytes: joinBytes(parts), etag, sizeBytes, contentType: SECTION_CONTENT_TYPE };
    },

    write: async (path, content, { ifMatch, ifNoneMatch, contentType } = {}) => {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      const written = await putObject(
        objectKey(path),
        bytes,
        contentType ?? contentTypeOf(path, bytes),
        condition(ifMatch, ifNoneMatch),
      );
      return written === null ? { conflict: true } : { etag: written.etag };
    },

    append: async (path, section, key) => {
      const bytes = typeof section === "string" ? new TextEncoder().encode(section) : section;
      const objectName = sectionKey(path, { key });
      await putObject(objectName, bytes, SECTION_CONTENT_TYPE, {});
      const stored = await getObject(objectName, undefined);
      if (stored === undefined) throw new Error("a section is gone right after it was written");
      return { sizeBytes: stored.bytes.length, sha256: await sha256Hex(stored.bytes) };
    },

    remove: async (path) => {
      const object = await bucket.head(objectKey(path));
      if (object !== null) await bucket.delete(object.key);
      const sections = await removePrefix(bucket, `${sectionsRoot}${path}//`);
      return object !== null || sections > 0;
    },

    list: async ({ prefix, limit, cursor, objectOnly = false }) => {
      const [page, sections] = await Promise.all([
        bucket.list({
          prefix: filesRoot + prefix,
          limit,
          ...(cursor === undefined ? {} : { startAfter: filesRoot + cursor }),
        }),
        objectOnly ? new Map<FilePath, readonly StoredSection[]>() : listSections(sectionsRoot + prefix),
      ]);
      const sectioned = await Promise.all(
        [...sections]
          .filter(([path]) => path.startsWith(prefix) && (cursor === undefined || comparePaths(path, cursor) > 0))
          .map(async ([path, stored]) => {
            const { sizeBytes, modifiedMs, etag } = await joinSections(shownSections(stored));
            return { path, sizeBytes, modifiedMs, etag, sectioned: true } as const;
          }),
      );
      return mergePages(page.objects.map(entryOf), page.truncated, sectioned, limit, comparePaths);
    },

    folders: async (directory, limit) => {
      const prefix = filesRoot + directory;
      const { delimitedPrefixes } = await bucket.list({ prefix, delimiter: "/", limit });
      return delimitedPrefixes.map((folder) => folder.slice(prefix.length, -1)).sort(comparePaths);
    },

    removeAll: async () =>
      (await removePrefix(bucket, `${filesRoot}/`)) + (await removePrefix(bucket, `${sectionsRoot}/`)),
  };
};
