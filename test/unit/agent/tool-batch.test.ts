import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type BatchOptions, runToolBatch } from "../../../src/agent/tool-batch.ts";
import type { ToolCall } from "../../../src/protocol/messages.ts";
import { defineTool, type Tool, type ToolResult } from "../../../src/protocol/tool.ts";

const call = (id: string, name: string, input: object | string = {}): ToolCall => ({
  id,
  name,
  inputText: typeof input === "string" ? input : JSON.stringify(input),
});

const tool = (name: string, run: () => Promise<ToolResult>, more: Partial<Tool> = {}): Tool => ({
  ...defineTool({ name, description: name, input: z.object({}), idempotent: true, run }),
  ...more,
});

const options = (tools: readonly Tool[], more: Partial<BatchOptions> = {}): BatchOptions => ({
  tools,
  timeoutMs: 10_000,
  signal: new AbortController().signal,
  now: () => 0,
  onFault: () => undefined,
  onAnswered: () => undefined,
  wrap: (exec) => exec,
  ...more,
});

const results = async (calls: readonly ToolCall[], given: BatchOptions) =>
  (await runToolBatch(calls, given)).map(({ result }) => result);

describe("a batch of tool calls", () => {
  it("is answered in the order of its calls, whichever ends first", async () => {
    const slow = Promise.withResolvers<ToolResult>();
    const tools = [
      tool("slow", () => slow.promise),
      tool("fast", async () => {
        slow.resolve({ content: "slow" });
        return { content: "fast" };
      }),
    ];
    expect(await results([call("1", "slow"), call("2", "fast")], options(tools))).toEqual([
      { content: "slow" },
      { content: "fast" },
    ]);
  });

  it("has at most four calls under way", async () => {
    let running = 0;
    let most = 0;
    const busy = tool("busy", async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
      return { content: "" };
    });
    await runToolBatch(
      Array.from({ length: 20 }, (_, n) => call(String(n), "busy")),
      options([busy]),
    );
    expect(most).toBe(4);
  });

  it("runs a tool that is not parallel alone, in its place", async () => {
    const log: string[] = [];
    const logging = (name: string, parallel: boolean) =>
      tool(
        name,
        async () => {
          log.push(`> ${name}`);
          await new Promise((resolve) => setImmediate(resolve));
          log.push(`< ${name}`);
          return { content: name };
        },
        { parallel },
      );
    await runToolBatch(
      [call("1", "read"), call("2", "write"), call("3", "write"), call("4", "read")],
      options([logging("read", true), logging("write", false)]),
    );
    expect(log).toEqual(["> read", "< read", "> write", "< write", "> write", "< write", "> read", "< read"]);
  });

  it("answers an exception with an error that does not show the inside, and reports it", async () => {
    const faults: unknown[] = [];
    const broken = tool("broken", async () => {
      throw new Error("password=hunter2");
    });
    const [result] = await results(
      [call("1", "broken")],
      options([broken], { onFault: (_call, error) => faults.push(error) }),
    );
    expect(result).toEqual({
      content: 'The tool "broken" failed unexpectedly. Its outcome is unknown.',
      isError: true,
    });
    expect(faults).toHaveLength(1);
  });

  it("answers a tool that throws synchronously, or from a middleware, the same way", async () => {
    const thrower = tool("t", async () => ({ content: "never" }), {
      call: () => {
        throw new Error("at once");
      },
    });
    const wrap: BatchOptions["wrap"] = () => async () => {
      throw new Error("in between");
    };
    expect((await results([call("1", "t")], options([thrower])))[0]?.isError).toBe(true);
    expect((await results([call("1", "t")], options([thrower], { wrap })))[0]?.isError).toBe(true);
  });

  it("stops a tool whose time is up, even one that does not listen, and says so", async () => {
    const deaf = tool("deaf", () => new Promise(() => undefined), { timeoutMs: 5 });
    expect(await results([call("1", "deaf")], options([deaf]))).toEqual([
      {
        content: 'The tool "deaf" did not answer within 0.005 s and was stopped. Its outcome is unknown.',
        isError: true,
      },
    ]);
  });

  it("rejects when the run ends, with the run's reason", async () => {
    const ending = new AbortController();
    const endless = tool("endless", () => new Promise(() => undefined));
    const batch = runToolBatch([call("1", "endless")], options([endless], { signal: ending.signal }));
    ending.abort(new RangeError("the run is over"));
    await expect(batch).rejects.toThrow("the run is over");
  });

  it.each([
    ["cut JSON", '{"path": "/a'],
    ["no JSON", "nonsense"],
    ["nothing", ""],
  ])("answers input that is %s with what was expected", async (_name, text) => {
    const ls = defineTool({
      name: "ls",
      description: "",
      input: z.object({ path: z.string() }),
      idempotent: true,
      run: async () => ({ content: "listed" }),
    });
    const [result] = await results([call("1", "ls", text)], options([ls]));
    expect(result?.isError).toBe(true);
    expect(result?.content).toMatch(/Expected input: .*"path"/);
  });

  it("answers JSON of the wrong shape with the path and what was expected", async () => {
    const ls = defineTool({
      name: "ls",
      description: "",
      input: z.strictObject({ path: z.string(), depth: z.int().optional() }),
      idempotent: true,
      run: async () => ({ content: "listed" }),
    });
    const [result] = await results([call("1", "ls", { path: 7, deep: 1 })], options([ls]));
    expect(result?.content).toMatch(/Invalid input for the tool "ls":\n- path: .*string/);
    expect(result?.content).toContain("deep");
  });
});
