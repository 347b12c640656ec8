/**
 * The filesystem of one session: what a backend promises. Implementations: `r2.ts`, `memory.ts`; both pass
 * `test/unit/files/contract.ts`.
 *
 * - Paths are checked before they come here (`path.ts`); a backend keeps them apart from every other session's.
 * - There are no directories: a path that begins with another path plus "/" is in it. `/a` and `/a/b` may both be files.
 * - A path holds either one object (`write`) or sections (`append`), and its writers use one of the two. Where both exist, the
 *   object is shown. Sections are shown as one file, in the order of their keys.
 * - Strongly consistent: what was written is what the next call sees.
 * - Methods reject only when the backend fails (network, rate limit); "not there" and "lost the race" are answers.
 */
import type { LineIndex } from "./line-index.ts";
import type { DirectoryPath, FilePath } from "./path.ts";

export interface FileEntry {
  readonly path: FilePath;
  readonly sizeBytes: number;
  /** Ms since the epoch. */
  readonly modifiedMs: number;
  /** Changes whenever the content does; opaque, without quotes. */
  readonly etag: string;
  /** Present for a file made of sections. */
  readonly sectioned?: true;
}

/** One object of a sectioned file: its place in the whole. */
export interface SectionSpan {
  readonly key: SectionKey;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  /** Newlines in the sections before this one. */
  readonly newlinesBefore: number;
}

export interface FileStat extends FileEntry {
  readonly contentType: string;
  /** Undefined for an object that was put into the bucket by something else. */
  readonly lines?: LineIndex;
  /** Oldest first; only for a sectioned file. */
  readonly sections?: readonly SectionSpan[];
}

export interface ByteRange {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

export interface FileRead {
  readonly bytes: Uint8Array;
  /** Of the whole file, also for a range. */
  readonly etag: string;
  /** Of the whole file. */
  readonly sizeBytes: number;
  readonly contentType: string;
}

export interface WriteOptions {
  /** Write only over the version with this etag. */
  readonly ifMatch?: string;
  /** Write only if there is nothing yet. */
  readonly ifNoneMatch?: "*";
  /** Default: by the path's extension. */
  readonly contentType?: string;
}

export type WriteResult = { readonly etag: string } | { readonly conflict: true };

export interface ReadOptions {
  readonly range?: ByteRange;
  /** Sections are not looked for, which saves a list where there is no object: for a path that never has any. */
  readonly objectOnly?: boolean;
}

/** The range of seqs that a section covers, both inclusive; non-negative integers. */
export interface SectionKey {
  readonly first: number;
  readonly last: number;
}

export interface ListOptions {
  /** Text that the paths begin with, not necessarily up to a "/". Begins with "/". */
  readonly prefix: string;
  /** At most 1,000. */
  readonly limit: number;
  /** Only paths after this text, by code point. The cursor of a page is its last path; any other text works too. */
  readonly cursor?: string;
  /** Sections are not looked for, which saves a list: for a directory that never has any. */
  readonly objectOnly?: boolean;
}

export interface FileList {
  /** Ordered by path, by code point. */
  readonly files: readonly FileEntry[];
  /** Present if there may be more. */
  readonly cursor?: string;
}

export interface FileSystem {
  /** What is at a path, or undefined. */
  stat(path: FilePath): Promise<FileStat | undefined>;

  /**
   * The bytes at a path, or undefined. A range is cut to the file (a range beyond its end is empty), and only the objects that
   * it touches are read.
   */
  read(path: FilePath, options?: ReadOptions): Promise<FileRead | undefined>;

  /**
   * Replaces the whole file. With a condition, compare-and-swap: of several writers that saw the same etag exactly one
   * succeeds and the others get `conflict`. Conditions look at the object, not at sections.
   */
  write(path: FilePath, content: Uint8Array | string, options?: WriteOptions): Promise<WriteResult>;

  /**
   * Adds a section to the file. The same key replaces the section, so that a repeated attempt changes nothing. A section whose
   * range lies within another's is not shown. Sections are joined as they are: one that should end a line ends in a newline.
   * @returns size and SHA-256 (hex) of the section as read back from the backend
   */
  append(
    path: FilePath,
    section: Uint8Array | string,
    key: SectionKey,
  ): Promise<{ readonly sizeBytes: number; readonly sha256: string }>;

  /** Removes the file, sections included. @returns whether there was one */
  remove(path: FilePath): Promise<boolean>;

  /** A page of the files whose path begins with a prefix; a sectioned file is one entry. */
  list(options: ListOptions): Promise<FileList>;

  /**
   * The names of the folders right in a directory that hold files which were written, by code point; sectioned files are not looked for. One
   * request to the backend, however many files the folders hold.
   * @param limit at most 1,000
   */
  folders(directory: DirectoryPath, limit: number): Promise<readonly string[]>;

  /** Removes everything, for an erasure. @returns how many objects were removed */
  removeAll(): Promise<number>;
}
