/** The files that tool calls named, and what was done to them (S2). */
import type { Seq } from "../protocol/ids.ts";

export type FileOperation = "read" | "write" | "edit" | "delete" | "other";

export interface TouchedFile {
  readonly path: string;
  /** The last operation that changed the file; where none did, the last one of any kind. */
  readonly operation: FileOperation;
  /** The last row that named the file. */
  readonly lastSeq: Seq;
}

/** Names of path inputs over the file tools whose recordings we have, ours first. */
const PATH_KEYS = [
  "file_path",
  "path",
  "filePath",
  "file",
  "filename",
  "file_name",
  "notebook_path",
  "target_file",
  "absolute_path",
] as const;
const MAX_PATH_CHARS = 400;

const OPERATIONS: readonly (readonly [FileOperation, RegExp])[] = [
  ["delete", /delete|remove|unlink|^rm$/i],
  ["edit", /edit|replace|patch|insert|update|append|undo/i],
  ["write", /write|create|save|put/i],
  ["read", /read|view|open|cat|get|show|present|load/i],
];

const operationOf = (verb: string): FileOperation =>
  OPERATIONS.find(([, pattern]) => pattern.test(verb))?.[0] ?? "other";

/** The file that a call names with what it does to it, or null. Searches and listings name directories and do not count. */
export const touchedBy = (
  toolName: string,
  input: unknown,
): { readonly path: string; readonly operation: FileOperation } | null => {
  if (typeof input !== "object" || input === null || /^(?:grep|glob|ls|search|find|list)/i.test(toolName)) return null;
  const values = new Map<string, unknown>(Object.entries(input));
  for (const key of PATH_KEYS) {
    const path = values.get(key);
    if (typeof path !== "string" || path === "" || path.length > MAX_PATH_CHARS || path.includes("\n")) continue;
    // One tool with many verbs says which in its command.
    const command = values.get("command");
    return { path, operation: operationOf(typeof command === "string" ? command : toolName) };
  }
  return null;
};

const changes = (operation: FileOperation): boolean =>
  operation === "write" || operation === "edit" || operation === "delete";

/** A file after one more call that named it. A created file that is then edited stays one that was written. */
export const touchedAgain = (before: TouchedFile | undefined, next: TouchedFile): TouchedFile => {
  if (before === undefined) return next;
  const later = next.lastSeq >= before.lastSeq ? next : before;
  const earlier = later === next ? before : next;
  if (earlier.operation === "write" && later.operation === "edit") return { ...later, operation: "write" };
  return changes(earlier.operation) && !changes(later.operation) ? { ...later, operation: earlier.operation } : later;
};
