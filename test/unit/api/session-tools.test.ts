import { describe, expect, it } from "vitest";
import { toolsSchema } from "../../../src/api/session-tools.ts";

const tool = (name: string) => ({
  type: "http",
  name,
  description: "Does it.",
  input_schema: { type: "object" },
  url: "https://example.com/tool",
});

describe("the tools of a session", () => {
  it.each([
    ...["ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep"],
    ...["write_todos", "task", "compact_conversation"],
  ])("cannot have the name of hango's own %s: the provider refuses two tools of one name", (name) => {
    const problems = toolsSchema.safeParse([tool(name)]).error?.issues.map(({ message }) => message);
    expect(problems).toContain("is the name of one of hango's own tools");
    expect(toolsSchema.safeParse([tool(`my_${name}`)]).success).toBe(true);
  });
});
