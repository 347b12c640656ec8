/** `write_file`: creates or replaces a file. */
import { z } from "zod";
import { defineTool, type Tool, toolError } from "../../protocol/tool.ts";
import type { FileSystem } from "../filesystem.ts";
import { countLines, indexLines } from "../line-index.ts";
import { isReadOnly, parsePath } from "../path.ts";
import { formatCount, formatSize, plural } from "../text-cut.ts";
import { MAX_FILE_BYTES, readOnly, refusedPath } from "./options.ts";

const inputSchema = z.object({
  file_path: z.string().describe('Absolute path, such as "/notes/plan.md".'),
  content: z.string().describe("The whole text of the file."),
});

export const writeFileTool = (fs: FileSystem): Tool =>
  defineTool({
    name: "write_file",
    description:
      "Creates a file, or replaces all of it. To change a part of a file use edit_file. Directories need not be created.",
    input: inputSchema,
    idempotent: true,
    // In order with the other writes of its batch: a later one may build on it.
    parallel: false,
    run: async ({ file_path: given, content }) => {
      const parsed = parsePath(given);
      if (!parsed.ok) return toolError(refusedPath(given, parsed.reason));
      if (isReadOnly(parsed.path)) return toolError(readOnly(parsed.path));
      const bytes = new TextEncoder().encode(content);
      if (bytes.length > MAX_FILE_BYTES) {
        return toolError(
          `The content has ${formatSize(bytes.length)}; a file has at most ${formatSize(MAX_FILE_BYTES)}. Split it into several files.`,
        );
      }
      await fs.write(parsed.path, bytes);
      const lines = countLines(indexLines(bytes), bytes.length);
      return { content: `Wrote ${parsed.path}: ${plural(lines, "line")}, ${formatCount(bytes.length)} bytes.` };
    },
  });
