/** A session's memory as it lies in its filesystem: which files there are, and what the first of them say, in bounded reads. */
import { sniff } from "./content-type.ts";
import type { FileSystem } from "./filesystem.ts";
import { type DirectoryPath, type FilePath, parsePath } from "./path.ts";

/** Where memory is kept (architecture, "Memory"). */
export const MEMORY_DIRECTORY = "/memories/" as DirectoryPath;

/** The file that comes before all others, whatever they are called. */
export const MEMORY_PATH = "/memories/AGENTS.md" as FilePath;

/** Files that are known by name at most: one page of a list. What is beyond it is told as "more". */
const MAX_LISTED = 100;

/** Files that are read at most: memory is what a turn begins with, not a place for an archive. */
const MAX_READ = 16;

/** Reads under way at once: a Worker has six connections for everything. */
const AT_ONCE = 4;

export interface MemoryFile {
  readonly path: FilePath;
  readonly sizeBytes: number;
  readonly content:
    | {
        readonly kind: "text";
        /** From the beginning on, whole characters. */
        readonly text: string;
        readonly complete: boolean;
      }
    /** No UTF-8 text. */
    | { readonly kind: "binary" }
    /** Beyond what is read of a memory. */
    | { readonly kind: "unread" };
}

export interface FoundMemory {
  /** `AGENTS.md` first, the others by path. Empty files are left out: they say nothing. */
  readonly files: readonly MemoryFile[];
  /** Whether there are more than are known by name. */
  readonly more: boolean;
}

/** How much is read of a memory. */
export interface MemoryReads {
  /** Of one file. */
  readonly fileBytes: number;
  /** Of all: no further file is begun once so much was read. */
  readonly totalBytes: number;
}

const decode = (bytes: Uint8Array, complete: boolean): MemoryFile["content"] => {
  if (sniff(bytes).kind !== "text") return { kind: "binary" };
  try {
    // `stream` leaves out a character that the end of the read went through.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes, { stream: !complete });
    return text.includes("\0") ? { kind: "binary" } : { kind: "text", text, complete };
  } catch {
    return { kind: "binary" };
  }
};

/** A file of the list; undefined where it was removed since, or is empty. */
const readFile = async (fs: FileSystem, path: FilePath, lengthBytes: number): Promise<MemoryFile | undefined> => {
  const found = await fs.read(path, { range: { offsetBytes: 0, lengthBytes }, objectOnly: true });
  if (found === undefined || found.sizeBytes === 0) return undefined;
  const { bytes, sizeBytes } = found;
  return { path, sizeBytes, content: decode(bytes, bytes.length >= sizeBytes) };
};

/** The names, in the order of memory. A name that no tool could read is left out: none of hango's ways writes one. */
const listed = async (fs: FileSystem) => {
  const page = await fs.list({ prefix: MEMORY_DIRECTORY, limit: MAX_LISTED, objectOnly: true });
  const more = page.cursor !== undefined;
  const files = page.files.filter(({ path, sizeBytes }) => {
    const parsed = parsePath(path);
    return sizeBytes > 0 && parsed.ok && parsed.path === path;
  });
  const first = files.find(({ path }) => path === MEMORY_PATH);
  const others = files.filter((file) => file !== first);
  // Beyond the page there may be the very file that comes first; reading it tells.
  if (first === undefined && more) return { files: [{ path: MEMORY_PATH, sizeBytes: 0 }, ...others], more };
  return { files: first === undefined ? others : [first, ...others], more };
};

/**
 * Reads a session's memory: one list where there is none, else a list and at most 16 bounded reads, four at once.
 * @throws what the backend fails with: a turn does not run with half a memory
 */
export const readMemory = async (fs: FileSystem, { fileBytes, totalBytes }: MemoryReads): Promise<FoundMemory> => {
  const { files, more } = await listed(fs);
  const read: MemoryFile[] = [];
  let bytes = 0;
  let at = 0;
  for (; at < Math.min(files.length, MAX_READ) && bytes < totalBytes; at += AT_ONCE) {
    const group = files.slice(at, Math.min(at + AT_ONCE, MAX_READ));
    for (const file of await Promise.all(group.map(({ path }) => readFile(fs, path, fileBytes)))) {
      if (file === undefined) continue;
      read.push(file);
      bytes += Math.min(file.sizeBytes, fileBytes);
    }
  }
  const unread = files
    .slice(at)
    .map(({ path, sizeBytes }): MemoryFile => ({ path, sizeBytes, content: { kind: "unread" } }));
  return { files: [...read, ...unread], more };
};
