/** What a session was set to, as stored, read back into types. */
import { z } from "zod";
import type { Config } from "../config.ts";
import type { MicroSettings } from "../context/micro-state.ts";
import type { ThinkingSetting } from "../protocol/messages.ts";
import type { Todo } from "../protocol/middleware.ts";

const thinking = z.discriminatedUnion("type", [
  z.object({ type: z.literal("adaptive") }),
  z.object({ type: z.literal("disabled") }),
  z.object({ type: z.literal("enabled"), budget_tokens: z.int().positive() }),
]);

const subagent = z.object({
  name: z.string(),
  description: z.string(),
  system: z.string().optional(),
  model: z.string().optional(),
  tools: z.array(z.string()).optional(),
  max_steps: z.int().positive().optional(),
});

/** A type of subagent that a session was given. */
export type SubagentSettings = z.infer<typeof subagent>;

const stored = z.object({
  max_steps: z.int().positive().optional(),
  max_tokens: z.int().positive().optional(),
  thinking: thinking.optional(),
  budget: z.object({ max_usd: z.number() }).optional(),
  subagents: z.union([z.literal(false), z.array(subagent)]).optional(),
  context: z
    .object({
      trigger_frac: z.number().optional(),
      keep_frac: z.number().optional(),
      tool_arg_max_tokens: z.int().optional(),
      summarizer_model: z.string().optional(),
      max_input_tokens: z.int().optional(),
      min_tail_user_messages: z.int().optional(),
      strict_alternation: z.boolean().optional(),
      micro_compaction: z
        .union([z.literal(false), z.object({ every_n_turns: z.int().optional(), defrag_tokens: z.int().optional() })])
        .optional(),
    })
    .optional(),
});

export interface SessionSettings {
  readonly maxSteps: number | undefined;
  readonly maxTokens: number | undefined;
  readonly thinking: ThinkingSetting | undefined;
  /** Most that the session may cost over all its turns, in USD at list price. */
  readonly maxUsd: number | undefined;
  /** False where it has none at all; undefined where nothing was said. */
  readonly subagents: false | readonly SubagentSettings[] | undefined;
  /** What the session overrides of the configuration's context settings. */
  readonly context: NonNullable<z.infer<typeof stored>["context"]>;
}

/** Reads the `settings` column. */
export const readSettings = (settings: unknown): SessionSettings => {
  const { max_steps, max_tokens, thinking, budget, subagents, context = {} } = stored.parse(settings);
  return { maxSteps: max_steps, maxTokens: max_tokens, thinking, maxUsd: budget?.max_usd, subagents, context };
};

/**
 * How a session is compacted between turns (section 11): its own word first, then the deployment's.
 * @returns null where it is not
 */
export const microSettingsOf = (
  { context }: Pick<SessionSettings, "context">,
  { context: { microCompaction } }: Pick<Config, "context">,
): MicroSettings | null => {
  const own = context.micro_compaction;
  if (own === false || (own === undefined && !microCompaction.on)) return null;
  return {
    everyNTurns: own?.every_n_turns ?? microCompaction.everyNTurns,
    defragTokens: own?.defrag_tokens ?? microCompaction.defragTokens,
  };
};

const todos = z.array(z.object({ content: z.string(), status: z.enum(["pending", "in_progress", "completed"]) }));

/** Reads the `todos` column. */
export const readTodos = (value: unknown): readonly Todo[] => todos.parse(value);
