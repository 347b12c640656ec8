/** `glob`: finds files by their paths. */
import { z } from "zod";
import { defineTool, type Tool, toolError } from "../../protocol/tool.ts";
import type { FileSystem } from "../filesystem.ts";
import { compileGlob } from "../glob.ts";
import { parseDirectory } from "../path.ts";
import { formatCount, formatSize, plural } from "../text-cut.ts";
import { refusedPath } from "./options.ts";

const MAX_MATCHES = 500;
/** Files looked at in one call: 20 pages of a list. */
const MAX_LISTED = 20_000;
const PAGE = 1_000;

const inputSchema = z.object({
  pattern: z.string().min(1).describe('Such as "*.md" or "src/**/*.{ts,tsx}".'),
  path: z.string().optional().describe('The directory to search, absolute. Default: the root "/".'),
});

export const globTool = (fs: FileSystem): Tool =>
  defineTool({
    name: "glob",
    description: `Finds files by path. "*" and "?" stay within a name, "**" crosses directories, [abc], [!abc] and {a,b} work. A pattern without "/" ("*.md") is about file names at any depth; one with "/" ("src/**/*.ts") about paths below "path". Answers at most ${MAX_MATCHES} paths, sorted.`,
    input: inputSchema,
    idempotent: true,
    run: async ({ pattern, path: given = "/" }) => {
      const parsed = parseDirectory(given);
      if (!parsed.ok) return toolError(refusedPath(given, parsed.reason));
      const glob = compileGlob(pattern, parsed.path);
      if (!glob.ok)
        return toolError(`The pattern ${JSON.stringify(pattern.slice(0, 200))} is not understood: ${glob.reason}.`);
      const matches: string[] = [];
      let listed = 0;
      let cursor: string | undefined;
      do {
        const page = await fs.list({ prefix: parsed.path, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
        listed += page.files.length;
        for (const { path, sizeBytes } of page.files) {
          if (!glob.test(path)) continue;
          if (matches.length === MAX_MATCHES) {
            return {
              content: `${matches.join("\n")}\n[Stopped after ${MAX_MATCHES} matches; there are more. Narrow the pattern or give a path.]`,
            };
          }
          matches.push(`${path} (${formatSize(sizeBytes)})`);
        }
        cursor = page.cursor;
      } while (cursor !== undefined && listed < MAX_LISTED);
      const cut =
        cursor === undefined
          ? ""
          : `\n[Only the first ${formatCount(listed)} files were looked at. Give a path to look at others.]`;
      return matches.length > 0
        ? { content: matches.join("\n") + cut }
        : {
            content: `No file matches ${JSON.stringify(pattern)} among ${plural(listed, "file")} in ${parsed.path}.${cut}`,
          };
    },
  });
