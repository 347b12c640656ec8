/** The session's files as tools, and a place for results that are too large for the log (ladder step 1). */
import type { FileSystem } from "../files/filesystem.ts";
import { offloadResult } from "../files/offload.ts";
import type { Middleware } from "../protocol/middleware.ts";
import type { Tool } from "../protocol/tool.ts";
import { type RepeatedReadPorts, withoutRepetition } from "./repeated-read.ts";

/** A result over this many tokens is offloaded, or over a tenth of a smaller window (context.md, "Window"). */
const OFFLOAD_TOKENS = 20_000;
const OFFLOAD_SHARE_OF_WINDOW = 0.1;

const GUIDE = `You have a filesystem of your own that lasts as long as this session. Paths are absolute, with forward slashes. Use ls, glob and grep to
find things, read_file to read, write_file and edit_file to change. /conversation_history/ and /large_tool_results/ are kept by the system:
read there, never write. When a tool's result was too large, the whole of it is in a file that the shortened result names.

/memories/AGENTS.md and the text files beside it are your memory: at the start of every turn they are put into your instructions, also after earlier
turns were compacted. To remember something for later turns, write it there with these tools; what you change is shown from the next turn on. There is
room for a few pages, AGENTS.md first: keep it short, and name other files in it for what is long.`;

export interface FilesystemOptions extends RepeatedReadPorts {
  readonly files: FileSystem;
  readonly tools: readonly Tool[];
  /** Names of other tools whose results stay whole, since they bound them themselves. */
  readonly whole: readonly string[];
}

/**
 * Offers the file tools, offloads what any tool (those of later middlewares included) answers at too great a length, and leaves out what a
 * file's reader still sees (R6).
 */
export const filesystemMiddleware = ({ files, tools, whole, ...ports }: FilesystemOptions): Middleware => {
  const { estimateTokens } = ports;
  const staying = new Set([...whole, ...tools.filter((tool) => !tool.offload).map((tool) => tool.name)]);
  return {
    name: "Filesystem",
    assemble: (draft) => {
      draft.system.push({ text: GUIDE });
      draft.tools.push(...tools);
    },
    wrapToolCall: async (call, context, next, run) => {
      const result = await next(call, context);
      if (staying.has(call.name)) return withoutRepetition(call, result, run.windowTokens, ports);
      return offloadResult({
        callId: call.id,
        toolName: call.name,
        result,
        thresholdTokens: Math.min(OFFLOAD_TOKENS, Math.floor(OFFLOAD_SHARE_OF_WINDOW * run.windowTokens)),
        estimateTokens,
        fs: files,
      });
    },
  };
};
