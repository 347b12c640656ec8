/** The tool by which the model asks for a compaction itself (G9). */
import { z } from "zod";
import type { RunContext } from "../protocol/middleware.ts";
import { defineTool } from "../protocol/tool.ts";

const compactInput = z.strictObject({
  focus: z.string().max(2_000).optional().describe("What the summary should keep in most detail."),
});

/** The tool of one run. */
export const compactTool = (run: RunContext) =>
  defineTool({
    name: "compact_conversation",
    description:
      "Replaces earlier parts of this conversation by a summary before your next step. Use it when you have finished a piece of work and its details are no longer needed. Nothing is lost: the full text stays readable in the history file.",
    input: compactInput,
    idempotent: true,
    parallel: false,
    run: async ({ focus }) => {
      run.state.private.forced = { reason: "tool", focus };
      return { content: "The conversation will be compacted before your next step." };
    },
  });
