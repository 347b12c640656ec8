/** The tools by which a model uses its session's files. */
import type { Tool } from "../../protocol/tool.ts";
import type { FileSystem } from "../filesystem.ts";
import { deleteFileTool } from "./delete-file.ts";
import { editFileTool } from "./edit-file.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { lsTool } from "./ls.ts";
import type { FileToolOptions } from "./options.ts";
import { readFileTool } from "./read-file.ts";
import { writeFileTool } from "./write-file.ts";

/**
 * `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and `delete_file` over a filesystem. What a model gets wrong (a
 * path, a missing file, a pattern) is an error result that says what to do; only a failing backend throws.
 */
export const fileTools = (fs: FileSystem, options: FileToolOptions): readonly Tool[] => [
  lsTool(fs),
  readFileTool(fs, options),
  writeFileTool(fs),
  editFileTool(fs),
  globTool(fs),
  grepTool(fs, options),
  deleteFileTool(fs),
];
