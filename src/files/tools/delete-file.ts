/** `delete_file`. */
import { z } from "zod";
import { defineTool, type Tool, toolError } from "../../protocol/tool.ts";
import type { FileSystem } from "../filesystem.ts";
import { isReadOnly, parsePath } from "../path.ts";
import { notFound, readOnly, refusedPath } from "./options.ts";

const inputSchema = z.object({ file_path: z.string().describe("Absolute path of the file.") });

export const deleteFileTool = (fs: FileSystem): Tool =>
  defineTool({
    name: "delete_file",
    description: "Deletes one file, for good. A directory is gone once its last file is.",
    input: inputSchema,
    idempotent: true,
    // In order with the other writes of its batch.
    parallel: false,
    run: async ({ file_path: given }) => {
      const parsed = parsePath(given);
      if (!parsed.ok) return toolError(refusedPath(given, parsed.reason));
      if (isReadOnly(parsed.path)) return toolError(readOnly(parsed.path));
      const removed = await fs.remove(parsed.path);
      return removed ? { content: `Deleted ${parsed.path}.` } : toolError(await notFound(fs, parsed.path));
    },
  });
