import { describe, expect, it } from "vitest";
import { checkSubagents, namesTools, subagentsSchema } from "../../../src/api/session-subagents.ts";

const reader = { name: "reader", description: "Reads." };
const problems = (given: unknown) =>
  subagentsSchema
    .safeParse(given)
    .error?.issues.flatMap((issue) =>
      issue.code === "invalid_union"
        ? issue.errors.flat().map(({ path, message }) => `${path.join(".")}: ${message}`)
        : [`${issue.path.join(".")}: ${issue.message}`],
    ) ?? [];

describe("the subagents of a session", () => {
  it("are a list or false", () => {
    for (const given of [false, [], [reader], [{ ...reader, tools: [], model: "m", system: "s", max_steps: 1 }]])
      expect(subagentsSchema.safeParse(given).success).toBe(true);
    for (const given of [true, "none", {}]) expect(subagentsSchema.safeParse(given).success).toBe(false);
  });

  it("have names that are used once, at most twenty, a description, and no member that is not known", () => {
    expect(problems([reader, reader])).toContain("1.name: is used twice");
    expect(problems([{ ...reader, name: "a b" }])).toContain("0.name: expected 1 to 64 letters, digits, _ or -");
    expect(problems([{ name: "x" }]).join()).toContain("0.description");
    expect(problems([{ ...reader, max_steps: 101 }]).join()).toContain("0.max_steps");
    expect(problems([{ ...reader, budget: 1 }]).join()).toContain("budget");
    const many = Array.from({ length: 21 }, (_, at) => ({ ...reader, name: `r${at}` }));
    expect(subagentsSchema.safeParse(many).success).toBe(false);
    expect(subagentsSchema.safeParse(many.slice(1)).success).toBe(true);
  });

  it("name tools that the session has and that its caller does not run", () => {
    const tools = [{ type: "http", name: "search" }, { name: "ask" }, { type: "web_search_1", name: "web" }];
    const check = (names: readonly string[]) => () =>
      checkSubagents([{ ...reader, tools: [...names] }], tools, "session.");
    expect(check(["search", "web"])).not.toThrow();
    expect(check(["search", "serach"])).toThrow(
      "session.subagents[0].tools[1]: the session has no such tool; its own are search, ask, web",
    );
    expect(check(["ask"])).toThrow("session.subagents[0].tools[0]: is run by the caller");
    expect(() => checkSubagents(false, [])).not.toThrow();
    expect([namesTools(null), namesTools([reader]), namesTools([{ ...reader, tools: ["x"] }])]).toEqual([
      false,
      false,
      true,
    ]);
  });
});
