/** The names of the tools that hango brings: a caller's tools have others, and telemetry tells them apart by these alone. */
import { LOAD_SKILL } from "./skill-file.ts";

/** The names of hango's own tools. */
export const OWN_TOOLS: readonly string[] = [
  "ls",
  "read_file",
  "write_file",
  "edit_file",
  "delete_file",
  "glob",
  "grep",
  "write_todos",
  "task",
  "compact_conversation",
  LOAD_SKILL,
];
