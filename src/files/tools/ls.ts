/** `ls`: what is directly in a directory. */
import { z } from "zod";
import { defineTool, type Tool, toolError } from "../../protocol/tool.ts";
import type { FileSystem } from "../filesystem.ts";
import { type DirectoryPath, parseDirectory, parsePath } from "../path.ts";
import { formatSize } from "../text-cut.ts";
import { refusedPath } from "./options.ts";

const MAX_ENTRIES = 500;
const PAGE = 1_000;
/** After every path in a directory, in the order of lists. */
const AFTER_ALL = "\u{10ffff}";

/** Files and directories directly in a directory. A directory's own contents are stepped over, not read through. */
const entriesOf = async (
  fs: FileSystem,
  directory: DirectoryPath,
): Promise<{ readonly lines: readonly string[]; readonly more: boolean }> => {
  const lines: string[] = [];
  const directories = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = await fs.list({ prefix: directory, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    cursor = page.cursor;
    for (const { path, sizeBytes } of page.files) {
      const slash = path.indexOf("/", directory.length);
      const name = slash === -1 ? undefined : path.slice(0, slash + 1);
      if (name !== undefined && directories.has(name)) continue;
      if (lines.length === MAX_ENTRIES) return { lines, more: true };
      lines.push(name ?? `${path} (${formatSize(sizeBytes)})`);
      if (name === undefined) continue;
      directories.add(name);
      if (cursor?.startsWith(name)) cursor = name + AFTER_ALL;
    }
  } while (cursor !== undefined);
  return { lines, more: false };
};

const inputSchema = z.object({
  path: z.string().optional().describe('The directory, absolute. Default: the root "/".'),
});

export const lsTool = (fs: FileSystem): Tool =>
  defineTool({
    name: "ls",
    description: `Lists the files (with sizes) and directories (ending in "/") directly in a directory, at most ${MAX_ENTRIES}. Use glob to find files at any depth.`,
    input: inputSchema,
    idempotent: true,
    run: async ({ path: given = "/" }) => {
      const parsed = parseDirectory(given);
      if (!parsed.ok) return toolError(refusedPath(given, parsed.reason));
      const { lines, more } = await entriesOf(fs, parsed.path);
      if (lines.length > 0) {
        const end = more
          ? `\n[Stopped after ${lines.length} entries. List a directory of it, or use glob with a pattern.]`
          : "";
        return { content: lines.join("\n") + end };
      }
      if (parsed.path === "/") return { content: "There are no files yet. Create one with write_file." };
      const file = parsePath(given);
      const stat = file.ok ? await fs.stat(file.path) : undefined;
      return stat === undefined
        ? toolError(
            `There is no directory ${parsed.path}. List the root with ls {"path":"/"}, or find files with glob.`,
          )
        : { content: `${stat.path} (${formatSize(stat.sizeBytes)}) is a file. Read it with read_file.` };
    },
  });
