/** What the file tools are made with, and the words that several of them use. */
import type { FileSystem } from "../filesystem.ts";
import { asDirectory, type FilePath } from "../path.ts";

export interface FileToolOptions {
  readonly estimateTokens: (text: string) => number;
  /** Most tokens that one `read_file` answers; default 20,000. */
  readonly maxReadTokens?: number;
  /** Most bytes that one `grep` looks through; default 16 MB (architecture section 4). */
  readonly grepScanBytes?: number;
}

/** Largest file that is written or edited through a tool: the API's limit for a file (api.md, "Limits"). */
export const MAX_FILE_BYTES = 25 * 1_048_576;

export const refusedPath = (given: string, reason: string): string =>
  `The path ${JSON.stringify(given.slice(0, 200))} is refused: ${reason}. Nothing was done.`;

export const readOnly = (path: FilePath): string =>
  `${path} is read-only: /conversation_history/ and /large_tool_results/ are kept by the system. Write to another path; to change a copy, read it and write it elsewhere.`;

/** Why a file is not there, with what to do: it may be a directory. */
export const notFound = async (fs: FileSystem, path: FilePath): Promise<string> => {
  const { files } = await fs.list({ prefix: asDirectory(path), limit: 1 });
  return files.length > 0
    ? `${path} is a directory, not a file. List it with ls ${JSON.stringify({ path })}.`
    : `There is no file ${path}. Paths are absolute and case-sensitive; find it with glob ${JSON.stringify({ pattern: path.slice(path.lastIndexOf("/") + 1) })} or ls.`;
};
