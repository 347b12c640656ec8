/** What a session sets of its own context window, where the deployment's settings do not suit it. */
import { z } from "@hono/zod-openapi";
import { boundedText } from "./text.ts";

/** A share, strictly between none and all (E7). */
const fraction = z.number().gt(0).lt(1);

export const contextSettings = z
  .strictObject({
    trigger_frac: fraction
      .optional()
      .openapi({ description: "Share of the window at which the session is compacted." }),
    keep_frac: fraction
      .optional()
      .openapi({ description: "Share of the messages that a compaction keeps as they are, the newest ones." }),
    tool_arg_max_tokens: z.int().min(16).max(1_000_000).optional().openapi({
      description: "Longest text in the arguments and results of older tool calls, in tokens, near the limit.",
    }),
    summarizer_model: boundedText(200, 1)
      .regex(/^\S+$/, "expected a model name without white space")
      .optional()
      .openapi({ description: "Model that writes the summaries." }),
    max_input_tokens: z
      .int()
      .min(1_000)
      .max(100_000_000)
      .optional()
      .openapi({ description: "The window to keep within, in tokens, instead of the model's." }),
    min_tail_user_messages: z.int().min(1).max(100).optional().openapi({
      description: "How many of the newest user messages stay word for word at least.",
    }),
    strict_alternation: z.boolean().optional().openapi({
      description:
        "Whether the model's chat template refuses messages whose roles do not alternate, as Mistral's do; what is missing between two is then filled in.",
    }),
  })
  .openapi("ContextSettings", { description: "What is not given is as the deployment has it." });
