import { afterAll, describe, expect, it } from "vitest";
import { startSimulator } from "../../../src/local/simulator/server.ts";
import { ask, assistant, call, post, result, text, tool, user } from "./harness.ts";

const simulator = await startSimulator();
afterAll(() => simulator.close());

const tools = [
  tool("ls", { path: {} }),
  tool("read_file", { file_path: {} }),
  tool("write_file", { file_path: {}, content: {} }),
  tool("edit_file", { file_path: {}, old_string: {}, new_string: {} }),
  tool("glob", { pattern: {} }),
  tool("grep", { pattern: {}, path: {} }),
  tool("delete_file", { file_path: {} }),
  tool("write_todos", { todos: {} }),
  tool("load_skill", { name: {} }),
  tool("my_tool", { city: {} }),
  tool("task", { description: {}, prompt: {}, subagent_type: {} }),
];

const answer = async (messages: readonly unknown[], more: Readonly<Record<string, unknown>> = { tools }) => {
  const reply = await post(simulator, ask(messages, more));
  expect(reply.status, reply.text).toBe(200);
  const { content, stop_reason: stopReason } = reply.json;
  return {
    text: content
      .filter((block) => block.type === "text")
      .map((block) => block.text)
      .join("\n"),
    calls: content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]),
    content,
    stopReason,
  };
};

describe("the unscripted agent (point 7)", () => {
  it("says in the first answer of a conversation, and only there, that it is a simulator", async () => {
    const first = await answer([user("Good morning")]);
    const second = await answer([user("Good morning"), assistant(first.content), user("Nice")]);
    expect([first.text.includes("I am a simulator"), second.text.includes("simulator")]).toEqual([true, false]);
  });

  it.each([
    ["read /notes.md", "read_file", { file_path: "/notes.md" }],
    ["Please read /notes.md.", "read_file", { file_path: "/notes.md" }],
    ["write /a.md: buy milk: today", "write_file", { file_path: "/a.md", content: "buy milk: today" }],
    ["write /a.md:\nline 1\nread /b.md", "write_file", { file_path: "/a.md", content: "line 1\nread /b.md" }],
    ['edit /a.md: "milk" -> "bread"', "edit_file", { file_path: "/a.md", old_string: "milk", new_string: "bread" }],
    ["list /", "ls", { path: "/" }],
    ["ls", "ls", { path: "/" }],
    ['search "x y"', "grep", { pattern: "x y" }],
    ['search for "x" in /docs', "grep", { pattern: "x", path: "/docs" }],
    ["glob *.md", "glob", { pattern: "*.md" }],
    ["delete /a.md", "delete_file", { file_path: "/a.md" }],
    ['call my_tool {"city": "Oslo", "days": 2}', "my_tool", { city: "Oslo", days: 2 }],
    ["call my_tool {broken}", "my_tool", {}],
    ["load skill pdf-forms", "load_skill", { name: "pdf-forms" }],
    ["Please load the skill `pdf-forms`.", "load_skill", { name: "pdf-forms" }],
    [
      "delegate to reader: read /a.md",
      "task",
      { description: "read /a.md", prompt: "read /a.md", subagent_type: "reader" },
    ],
    [
      "todo one; two",
      "write_todos",
      {
        todos: [
          { content: "one", status: "pending" },
          { content: "two", status: "pending" },
        ],
      },
    ],
  ])("follows %j", async (command, name, input) => {
    const { calls, stopReason } = await answer([user(command)]);
    expect([calls, stopReason]).toEqual([[[name, input]], "tool_use"]);
  });

  it("remembers line by line: what its instructions hold of its memory file, and what it is told to remember", async () => {
    const said = user("remember: tea, not coffee\nPlease remember: no meetings on Fridays");
    const system = 'Be kind.\n\n<memory path="/memories/AGENTS.md">\n- short answers\n</memory>';
    const added = "- tea, not coffee\n- no meetings on Fridays";
    const write = (content: string) => [["write_file", { file_path: "/memories/AGENTS.md", content }]];
    expect((await answer([said])).calls).toEqual(write(added));
    expect((await answer([said], { tools, system })).calls).toEqual(write(`- short answers\n${added}`));
  });

  it("calls several tools at once, their ids all different", async () => {
    const { calls, content } = await answer([
      user('write /a.md: one and two\nread /b.md and then list /docs\nsearch "c"'),
    ]);
    expect(calls).toEqual([
      ["write_file", { file_path: "/a.md", content: "one and two" }],
      ["read_file", { file_path: "/b.md" }],
      ["ls", { path: "/docs" }],
      ["grep", { pattern: "c" }],
    ]);
    const ids = content.filter((block) => block.type === "tool_use").map((block) => block.id);
    expect(new Set(ids).size).toBe(4);
    expect(
      (
        await answer([
          user("read /b.md"),
          assistant([call(ids[0] ?? "")]),
          user([result(ids[0] ?? "")]),
          assistant("ok"),
          user("read /b.md"),
        ])
      ).content.at(-1)?.id,
    ).not.toBe(ids[0]);
  });

  it("says which tool it was not offered", async () => {
    const { text: said, calls } = await answer([user("read /a.md\nlist /")], { tools: [tool("ls", { path: {} })] });
    expect([said.includes("I have no tool read_file."), calls]).toEqual([true, [["ls", { path: "/" }]]]);
  });

  it("quotes what its tools said, errors as errors", async () => {
    const { text: said, stopReason } = await answer([
      user("read /a.md and then read /b.md"),
      assistant([call("a", { file_path: "/a.md" }, "read_file"), call("b", { file_path: "/b.md" }, "read_file")]),
      user([result("a", [text("The code is 4711.")]), { ...result("b", "no such file"), is_error: true }]),
    ]);
    expect([said, stopReason]).toEqual([
      'read_file "/a.md" said:\nThe code is 4711.\n\nread_file "/b.md" failed: no such file',
      "end_turn",
    ]);
  });

  it("answers from earlier lines of the user, and from results where the user said nothing", async () => {
    const history = [
      user("My dog is called Bello.\nThe deadline is 12 May."),
      assistant("Noted."),
      user("read /a.md"),
      assistant([call("a", { file_path: "/a.md" }, "read_file")]),
      user([result("a", "The password hint is walrus.")]),
      assistant("ok"),
    ];
    expect((await answer([...history, user("What did I say about the deadline?")])).text).toBe(
      'You said: "The deadline is 12 May."',
    );
    expect((await answer([...history, user("what was the hint?")])).text).toBe(
      'I find this in our conversation: "The password hint is walrus."',
    );
    expect((await answer([...history, user("Who won the cup?")])).text).toBe(
      "I find nothing about won, cup in our conversation.",
    );
  });

  it("summarises by picking lines when it is asked to without tools, shorter than the text and the same every time", async () => {
    const lines = Array.from({ length: 200 }, (_, index) =>
      index === 77
        ? "We decided to use /srv/data because of error E1234."
        : "So it went on and on with nothing of note.",
    );
    const body = [user(lines.map((line, index) => `${line} ${"abc"[index % 3]}`).join("\n"))];
    const more = { system: "You summarize conversations." };
    const one = await answer(body, more);
    const two = await answer(body, more);
    expect(one.text).toBe(two.text);
    expect(one.text).toContain("/srv/data because of error E1234");
    expect(one.text.length).toBeLessThan(lines.join("\n").length / 4);
    expect(one.text).not.toContain("simulator");
    expect(simulator.requests.at(-1)?.purpose).toBe("summarize");
  });
});
