/**
 * Memory: a file of the session that the model reads at the start of every turn and may edit with the file tools. It stands in the
 * system prompt behind the cache mark, since it may differ from turn to turn (V8).
 */
import type { FileSystem } from "../files/filesystem.ts";
import { parsePath } from "../files/path.ts";
import type { Middleware } from "../protocol/middleware.ts";

/** Where memory is kept (architecture, "Memory"). */
export const MEMORY_PATH = "/memories/AGENTS.md";

/** Most of it that is loaded, in bytes: it is part of every request. */
const MAX_BYTES = 32_768;

const GUIDE = `${MEMORY_PATH} is your memory: it is loaded here at the start of every turn. Edit it with the file tools to remember something for later turns.`;

const read = async (files: FileSystem): Promise<string> => {
  const path = parsePath(MEMORY_PATH);
  if (!path.ok) return "";
  const range = { offsetBytes: 0, lengthBytes: MAX_BYTES };
  // Most sessions have no memory, and every turn asks.
  const found = await files.read(path.path, { range, objectOnly: true });
  if (found === undefined) return "";
  const text = new TextDecoder().decode(found.bytes).trim();
  return found.sizeBytes <= MAX_BYTES
    ? text
    : `${text}\n[The first ${MAX_BYTES} of ${found.sizeBytes} bytes; read the file for the rest.]`;
};

/** Loads memory once a turn, and adds it as a late system block when there is any. */
export const memoryMiddleware = (files: FileSystem): Middleware => ({
  name: "Memory",
  beforeTurn: async (run) => {
    const text = await read(files);
    if (text !== "") run.state.private.volatile.set("memory", text);
  },
  assemble: (draft, run) => {
    const text = run.state.private.volatile.get("memory");
    if (text !== undefined) draft.system.push({ text: `${GUIDE}\n\n<memory>\n${text}\n</memory>` });
  },
});
