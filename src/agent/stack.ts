/** The middlewares around the model, in order, and how they are folded into one call. */
import type { Middleware, ModelCall, RunContext, ToolExec } from "../protocol/middleware.ts";

/**
 * What middlewares read before a turn's first call. Side by side: each reads for itself, and the turn waits for the slowest, not for all.
 * @throws what one of them fails with
 */
export const beginTurn = async (stack: readonly Middleware[], run: RunContext): Promise<void> => {
  await Promise.all(stack.map((middleware) => middleware.beforeTurn?.(run)));
};

/** The model call with every `wrapModelCall` around it; the first of the stack is the outermost. */
export const wrapModel = (stack: readonly Middleware[], call: ModelCall, run: RunContext): ModelCall =>
  stack.reduceRight<ModelCall>((next, middleware) => {
    const wrap = middleware.wrapModelCall?.bind(middleware);
    return wrap === undefined ? next : (request) => wrap(request, next, run);
  }, call);

/** The execution of a tool call with every `wrapToolCall` around it; the first of the stack is the outermost. */
export const wrapTool = (stack: readonly Middleware[], exec: ToolExec, run: RunContext): ToolExec =>
  stack.reduceRight<ToolExec>((next, middleware) => {
    const wrap = middleware.wrapToolCall?.bind(middleware);
    return wrap === undefined ? next : (call, context) => wrap(call, context, next, run);
  }, exec);

/** What a slot is filled with; a slot without a middleware is left out. */
export interface Slots {
  readonly todo: Middleware;
  readonly filesystem: Middleware;
  readonly subagents: Middleware;
  /** With ToolArgTruncation nested inside: its first step. */
  readonly compaction: Middleware;
  readonly promptCache: Middleware;
  readonly memory: Middleware;
  readonly skills: Middleware;
  readonly callerTools: Middleware;
}

/**
 * The default stack in its documented order (architecture section 3): Todo, Filesystem, Subagents, Compaction, PromptCache, Memory,
 * Skills, CallerTools. The order carries meaning: what stands after PromptCache lands behind its mark, and what wraps tool
 * calls first sees their results last.
 */
export const defaultStack = (slots: Slots): readonly Middleware[] => [
  slots.todo,
  slots.filesystem,
  slots.subagents,
  slots.compaction,
  slots.promptCache,
  slots.memory,
  slots.skills,
  slots.callerTools,
];
