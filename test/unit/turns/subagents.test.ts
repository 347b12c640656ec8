/** What a subagent's session is made of, what its end comes to as a result, and how it counts. */
import { describe, expect, it } from "vitest";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { Used } from "../../../src/store/statements.ts";
import { subagentSession, subagentTypes } from "../../../src/turns/subagent-types.ts";
import { createSubagentUse } from "../../../src/turns/subagent-use.ts";
import { subagentIds, taskResult } from "../../../src/turns/subagents.ts";

const reader = { name: "reader", description: "Reads." };
const names = (types: readonly { readonly name: string }[]) => types.map(({ name }) => name);
const http = (name: string) => ({ type: "http", name });

describe("the types of a session", () => {
  const session = { depth: 0, tools: [] };

  it("are the general one first, then its own in the order given", () => {
    expect(names(subagentTypes(session, { subagents: undefined }, 1, "task"))).toEqual(["general-purpose"]);
    expect(names(subagentTypes(session, { subagents: [reader] }, 1, "task"))).toEqual(["general-purpose", "reader"]);
    const own = [reader, { ...reader, name: "general-purpose" }];
    expect(subagentTypes(session, { subagents: own }, 1, "task")).toEqual(own);
  });

  it("are none where they are switched off, at the depth that is allowed, or where the session has a tool of that name", () => {
    expect(subagentTypes(session, { subagents: false }, 1, "task")).toEqual([]);
    expect(subagentTypes(session, { subagents: [reader] }, 0, "task")).toEqual([]);
    expect(subagentTypes({ ...session, depth: 1 }, { subagents: [reader] }, 1, "task")).toEqual([]);
    expect(subagentTypes({ ...session, depth: 1 }, { subagents: [reader] }, 2, "task")).toHaveLength(2);
    expect(subagentTypes({ ...session, tools: [http("task")] }, { subagents: undefined }, 1, "task")).toEqual([]);
  });
});

describe("a subagent's session", () => {
  const parent = {
    model: "claude-sonnet-5-5",
    tools: [http("search"), http("charge"), { type: "custom", name: "ask" }, { name: "ask_too" }],
    settings: {
      budget: { max_usd: 1 },
      max_steps: 9,
      max_tokens: 100,
      thinking: { type: "adaptive" },
      context: { max_input_tokens: 5_000, keep_frac: 0.2 },
      subagents: [reader],
    },
  };

  it("has the parent's settings without its budget, and those of its tools that the caller does not run", () => {
    const made = subagentSession(parent, reader);
    const { budget: _, ...settings } = parent.settings;
    expect([made.model, made.settings]).toEqual([parent.model, settings]);
    expect(made.tools).toEqual([http("search"), http("charge")]);
    expect(made.system).toContain("Your last message is handed to the agent");
  });

  it("has what its type says; what is bound to the parent's model does not go with another", () => {
    const type = { ...reader, system: "Be brief.", model: "claude-haiku-4-5", tools: ["search", "ask"], max_steps: 3 };
    const made = subagentSession(parent, type);
    expect(made.model).toBe("claude-haiku-4-5");
    expect(made.system.startsWith("Be brief.\n\n")).toBe(true);
    expect(made.tools).toEqual([http("search")]);
    expect(made.settings).toEqual({ max_steps: 3, context: { keep_frac: 0.2 }, subagents: [reader] });
  });
});

describe("the result of a task", () => {
  const ended = (stopReason: string) => ({ status: "completed" as const, stopReason, error: null });

  it("is the last text, or says that there was none", () => {
    expect(taskResult(ended("end_turn"), "done")).toEqual({ content: "done" });
    expect(taskResult(ended("end_turn"), " \n")).toEqual({ content: "The subagent ended without a last message." });
  });

  it.each(["max_steps", "budget_reached", "max_tokens", "refusal", "model_context_window_exceeded"])(
    "of one that stopped for %s is an error with what it had said last",
    (reason) => {
      const { content, isError } = taskResult(ended(reason), "half of it");
      expect(isError).toBe(true);
      expect(content).toMatch(/^The subagent did not finish: .+\n.*What it had said last:\nhalf of it$/s);
    },
  );

  it("of one that failed or was cancelled is an error that says so", () => {
    const error = { type: "invalid_request_error", code: "context_cannot_fit", message: "Too long.", retryable: false };
    expect(taskResult({ status: "failed", stopReason: null, error }, "")).toEqual({
      content:
        "The subagent failed (context_cannot_fit): Too long. Files that it wrote are there.\nIt had said nothing.",
      isError: true,
    });
    expect(taskResult({ status: "cancelled", stopReason: null, error: null }, "x").content).toContain("was cancelled");
  });
});

it("ids follow from run and call: the same each time, and those of no other call", async () => {
  const run = "run_01ABCDEFGHJKMNPQRSTVWXYZ01" as RunId;
  const ids = await subagentIds(run, "toolu_1");
  expect(ids).toEqual(await subagentIds(run, "toolu_1"));
  expect(ids.sessionId).toMatch(/^ses_01ABCDEFGH[0-9A-HJKMNP-TV-Z]{16}$/);
  expect(ids.runId).not.toBe(run);
  for (const other of [await subagentIds(run, "toolu_2"), await subagentIds(`${run}2` as RunId, "toolu_1")])
    expect(other.sessionId).not.toBe(ids.sessionId);
});

it("what subagents use is counted while they do and after, and of one that is gone on with only what is new", () => {
  const used = (outputTokens: number, costUsd: number | null): Used => ({
    usage: { inputTokens: 0, outputTokens, cacheReadTokens: 0, cacheWriteTokens: 0 },
    costUsd,
  });
  const use = createSubagentUse(used(10, 1));
  let now = used(10, 1);
  const ended = use.watch(() => now, used(10, 1));
  expect(use.total()).toEqual(used(10, 1));
  now = used(15, 1.5);
  expect(use.total()).toEqual(used(15, 1.5));
  ended();
  now = used(99, 99);
  ended();
  expect(use.total()).toEqual(used(15, 1.5));
  expect([createSubagentUse(null).any(), use.any(), createSubagentUse(null).total().costUsd]).toEqual([
    false,
    true,
    null,
  ]);
});
