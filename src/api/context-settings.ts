/** What a session sets of its own context window, where the deployment's settings do not suit it. */
import { z } from "@hono/zod-openapi";
import { MAX_DEFRAG_TOKENS, MAX_MICRO_TURNS, MIN_DEFRAG_TOKENS } from "../protocol/micro-limits.ts";
import { boundedText } from "./text.ts";

/** A share, strictly between none and all (E7). */
const fraction = z.number().gt(0).lt(1);

/** Compaction between turns (section 11): off, or how it is. */
const microCompaction = z
  .union([
    z.literal(false, "expected false, or an object such as {} that says how it is on"),
    z
      .strictObject({
        every_n_turns: z.int().min(1).max(MAX_MICRO_TURNS).optional().openapi({
          description: "A pass after every so many normally finished turns.",
        }),
        defrag_tokens: z.int().min(MIN_DEFRAG_TOKENS).max(MAX_DEFRAG_TOKENS).optional().openapi({
          description: "By how much its summary may grow before it is written anew, in tokens.",
        }),
      })
      .openapi("MicroCompaction"),
  ])
  .openapi({
    description:
      "Compacts the session between turns, one exchange at a time: an object (`{}` for the deployment's numbers) switches it on, `false` off. Each pass costs a break of the prompt cache.",
  });

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
    micro_compaction: microCompaction.optional(),
  })
  .openapi("ContextSettings", { description: "What is not given is as the deployment has it." });
