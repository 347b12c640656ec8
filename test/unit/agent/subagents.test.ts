import { describe, expect, it } from "vitest";
import { type SubagentsOptions, subagentsMiddleware } from "../../../src/agent/subagents.ts";
import type { RequestDraft, RunContext } from "../../../src/protocol/middleware.ts";
import type { Tool, ToolResult } from "../../../src/protocol/tool.ts";

const run = {} as RunContext;
const types = [
  { name: "general-purpose", description: "For anything." },
  { name: "reader", description: "For reading." },
];
const input = { description: "a task", prompt: "do it", subagent_type: "reader" };

const setUp = (options: Partial<SubagentsOptions> = {}) => {
  const left: string[] = [];
  const middleware = subagentsMiddleware({
    types,
    timeoutMs: 1_000,
    delegate: async ({ prompt }) => ({ kind: "answered", result: { content: `did: ${prompt}` } }),
    leaveNow: () => left.push("left"),
    ...options,
  });
  const draft: RequestDraft = { system: [], tools: [], providerTools: [], messages: [] };
  middleware.assemble?.(draft, run);
  const ending = new AbortController();
  const context = { callId: "toolu_1", inputText: "{}", signal: ending.signal };
  const call = (work: () => Promise<ToolResult>) => {
    const wrapped = middleware.wrapToolCall?.({ id: "1", name: "t", inputText: "{}" }, context, work, run);
    wrapped?.catch(() => undefined);
    return wrapped;
  };
  return { tools: draft.tools, left, context, ending, call };
};

describe("the tool task", () => {
  it("lists its types in their order, may be made again after a crash (M7), and is not there without types", async () => {
    const { tools, context } = setUp();
    const [task] = tools;
    expect([task?.name, task?.idempotent, task?.parallel, task?.timeoutMs]).toEqual(["task", true, true, 1_000]);
    expect(task?.description).toMatch(/- general-purpose: For anything\.\n- reader: For reading\.$/);
    expect(await task?.call(input, context)).toEqual({ content: "did: do it" });
    expect(setUp({ types: [] }).tools).toEqual([]);
  });

  it("says what was expected of a wrong input, and which types there are", async () => {
    const { tools, context } = setUp();
    const wrong = await tools[0]?.call({ ...input, prompt: " " }, context);
    expect([wrong?.isError, wrong?.content]).toEqual([true, expect.stringContaining("- prompt: ")]);
    expect((await tools[0]?.call({ ...input, subagent_type: "x" }, context))?.content).toContain('"reader"');
  });

  it("of which nothing but left tasks is under way has the run left at once, and not before other calls have ended", async () => {
    const { tools, context, left, ending, call } = setUp({ delegate: async () => ({ kind: "left" }) });
    const task = tools[0] as Tool;
    const other = Promise.withResolvers<ToolResult>();
    const waiting = call(() => other.promise);
    const tasks = [call(() => task.call(input, context)), call(() => task.call(input, context))];
    await new Promise((resolve) => setImmediate(resolve));
    expect(left).toEqual([]);
    other.resolve({ content: "done" });
    await waiting;
    expect(left).toEqual(["left"]);
    ending.abort(new Error("left"));
    for (const each of tasks) await expect(each).rejects.toThrow("left");
  });
});
