import { describe, expect, it } from "vitest";
import { beginTurn, defaultStack, wrapModel, wrapTool } from "../../../src/agent/stack.ts";
import type { ModelRequest, ModelResponse } from "../../../src/protocol/messages.ts";
import type { Middleware, RunContext } from "../../../src/protocol/middleware.ts";

const run = {} as RunContext;
const request: ModelRequest = { model: "m", maxTokens: 1, system: [], tools: [], messages: [] };
const response = { text: "" } as ModelResponse;

/** Writes down when it is entered and left. */
const logging = (name: string, log: string[]): Middleware => ({
  name,
  wrapModelCall: async (passed, next) => {
    log.push(`> ${name}`);
    const answer = await next({ ...passed, model: `${passed.model} ${name}` });
    log.push(`< ${name}`);
    return answer;
  },
  wrapToolCall: async (call, context, next) => {
    log.push(`> ${name}`);
    const result = await next(call, context);
    log.push(`< ${name}`);
    return result;
  },
});

describe("the stack", () => {
  it("has its documented order", () => {
    const named = (name: string): Middleware => ({ name });
    const stack = defaultStack({
      callerTools: named("CallerTools"),
      skills: named("Skills"),
      memory: named("Memory"),
      promptCache: named("PromptCache"),
      compaction: named("Compaction"),
      subagents: named("Subagents"),
      filesystem: named("Filesystem"),
      todo: named("Todo"),
    });
    expect(stack.map(({ name }) => name)).toEqual([
      "Todo",
      "Filesystem",
      "Subagents",
      "Compaction",
      "PromptCache",
      "Memory",
      "Skills",
      "CallerTools",
    ]);
  });

  it("begins a turn with all reading side by side, and fails with the one that fails", async () => {
    const second = Promise.withResolvers<void>();
    const stack: readonly Middleware[] = [
      { name: "a", beforeTurn: () => second.promise },
      { name: "none" },
      { name: "b", beforeTurn: async () => second.resolve() },
    ];
    await beginTurn(stack, run);
    const failing: Middleware = { name: "c", beforeTurn: () => Promise.reject(new Error("no bucket")) };
    await expect(beginTurn([...stack, failing], run)).rejects.toThrow("no bucket");
  });

  it("wraps a model call with the first outermost, passing over those that do not", async () => {
    const log: string[] = [];
    const call = wrapModel(
      [logging("a", log), { name: "none" }, logging("b", log)],
      async ({ model }) => {
        log.push(model);
        return response;
      },
      run,
    );
    await call(request);
    expect(log).toEqual(["> a", "> b", "m a b", "< b", "< a"]);
  });

  it("wraps a tool call the same way", async () => {
    const log: string[] = [];
    const exec = wrapTool(
      [logging("a", log), logging("b", log)],
      async () => {
        log.push("tool");
        return { content: "ok" };
      },
      run,
    );
    await exec(
      { id: "1", name: "t", inputText: "{}" },
      { callId: "1", inputText: "{}", signal: new AbortController().signal },
    );
    expect(log).toEqual(["> a", "> b", "tool", "< b", "< a"]);
  });
});
