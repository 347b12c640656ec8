/** Delegation: the model gives a task to a subagent, which works on it in a context of its own and answers with its last text. */
import { z } from "zod";
import type { Middleware } from "../protocol/middleware.ts";
import { defineTool, type ToolContext, type ToolResult, toolError } from "../protocol/tool.ts";

/** The tool's name. */
export const TASK = "task";

export interface SubagentType {
  readonly name: string;
  /** What it is for, in words for the model. */
  readonly description: string;
}

export interface Task {
  readonly type: string;
  /** A few words, for people. */
  readonly description: string;
  /** All that the subagent is told. */
  readonly prompt: string;
}

/** `left`: another Worker is to go on with the task, and with the run that gave it. */
export type TaskOutcome = { readonly kind: "answered"; readonly result: ToolResult } | { readonly kind: "left" };

export interface SubagentsOptions {
  /** In the order in which they are offered; empty where there are none. */
  readonly types: readonly SubagentType[];
  /** Longest run of a task, in ms. */
  readonly timeoutMs: number;
  /** Does a task, or goes on with what was begun for this call before. Rejects with the reason of the signal. */
  readonly delegate: (task: Task, context: ToolContext) => Promise<TaskOutcome>;
  /** Called when nothing but tasks that are left keeps the run here. */
  readonly leaveNow: () => void;
}

const inputSchema = z
  .object({
    description: z.string().trim().min(1).max(200).describe("The task in a few words."),
    prompt: z.string().trim().min(1).max(200_000).describe("Everything that the subagent has to know."),
    subagent_type: z.string().describe("One of the types named above."),
  })
  .strict();

const describe = (types: readonly SubagentType[]): string =>
  `Gives a task to a subagent, which works on it by itself and answers once. It starts with nothing but your prompt: it has not seen this conversation.
It works on the same files. You get its last message, nothing of what it did on the way; the user does not see it. Use it for work that would fill this
conversation with what you do not need afterwards, and call it several times at once for tasks that do not depend on each other. Say in the prompt
what to find or do, which files matter, and what the answer is to contain.

Types:
${types.map(({ name, description }) => `- ${name}: ${description}`).join("\n")}`;

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });

/**
 * Offers `task` where there are types. It is idempotent (M7): a call that is made again goes on with the subagent that it began, or gets the answer of
 * one that has ended.
 */
export const subagentsMiddleware = (options: SubagentsOptions): Middleware => {
  const { types, timeoutMs, delegate, leaveNow } = options;
  /** Calls under way, and those of them whose task is left. */
  let open = 0;
  let left = 0;
  const lookWhetherToLeave = (): void => {
    if (left > 0 && left === open) leaveNow();
  };
  const task = defineTool({
    name: TASK,
    description: describe(types),
    input: inputSchema,
    idempotent: true,
    timeoutMs,
    run: async ({ subagent_type: type, description, prompt }, context) => {
      if (!types.some(({ name }) => name === type)) {
        const known = types.map(({ name }) => JSON.stringify(name)).join(", ");
        return toolError(`There is no subagent type ${JSON.stringify(type)}. Types: ${known}.`);
      }
      const outcome = await delegate({ type, description, prompt }, context);
      if (outcome.kind === "answered") return outcome.result;
      left++;
      lookWhetherToLeave();
      return aborted(context.signal);
    },
  });
  return {
    name: "Subagents",
    assemble: (draft) => {
      if (types.length > 0) draft.tools.push(task);
    },
    wrapToolCall: async (call, context, next) => {
      open++;
      try {
        return await next(call, context);
      } finally {
        open--;
        lookWhetherToLeave();
      }
    },
  };
};
