/**
 * Memory: `/memories/AGENTS.md` and the files beside it, read at the start of every turn. It stands in the system prompt behind the cache
 * mark, since it may differ from turn to turn (V8). How to change it is told with the file tools, before the mark.
 */
import type { FileSystem } from "../files/filesystem.ts";
import { readMemory } from "../files/memories.ts";
import type { Middleware } from "../protocol/middleware.ts";
import { memoryBudget, memoryText } from "./memory-text.ts";

const HEADING =
  "Your memory, as it was at the start of this turn. What you change in it with the file tools stands here from the next turn on.";

export interface MemoryOptions {
  readonly files: FileSystem;
  /** Tokens of a text as the session's model counts them. */
  readonly estimateTokens: (text: string) => number;
}

/**
 * Reads memory once, when a run begins or is gone on with, and adds it as a late system block when there is any (V8). A read that keeps
 * failing fails the run: an answer without what the user asked to be remembered would be a wrong one.
 */
export const memoryMiddleware = ({ files, estimateTokens }: MemoryOptions): Middleware => ({
  name: "Memory",
  beforeTurn: async (run) => {
    const budget = memoryBudget(run.windowTokens);
    const text = memoryText(await readMemory(files, budget.reads), budget, estimateTokens);
    if (text !== "") run.state.private.volatile.set("memory", text);
  },
  assemble: (draft, run) => {
    const text = run.state.private.volatile.get("memory");
    if (text !== undefined) draft.system.push({ text: `${HEADING}\n\n${text}` });
  },
});
