import { beforeEach, describe, expect, it } from "vitest";
import { filesystemMiddleware } from "../../../src/agent/filesystem.ts";
import { unchangedNote, unchangedSince } from "../../../src/context/dedup.ts";
import { defaultEstimator, estimateRow } from "../../../src/context/estimate-request.ts";
import { EMPTY_SECTIONS } from "../../../src/context/sections.ts";
import { createRenderer } from "../../../src/context/view.ts";
import { EMPTY_VIEW, type ViewState } from "../../../src/context/view-state.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import type { FilePath } from "../../../src/files/path.ts";
import { fileTools } from "../../../src/files/tools/file-tools.ts";
import { type MessageId, type RunId, seq } from "../../../src/protocol/ids.ts";
import type { LogRow } from "../../../src/protocol/messages.ts";
import type { RunContext } from "../../../src/protocol/middleware.ts";

const estimateTokens = defaultEstimator.text;
const LONG = Array.from({ length: 300 }, (_, at) => `Line ${at} of a file that is worth a note.`).join("\n");

/** A session that reads files: each read is a batch of its own in the log. */
const reader = () => {
  const files = memoryFileSystem(() => 0);
  const tools = fileTools(files, { estimateTokens });
  const rows: LogRow[] = [];
  const renderer = createRenderer({
    sessionId: "ses_1",
    estimateTokens,
    messageTokens: (message, tokens) => tokens ?? estimateRow(message.content),
  });
  const session = { files, rows, view: EMPTY_VIEW as ViewState, windowTokens: 200_000 };
  const middleware = filesystemMiddleware({
    files,
    tools,
    whole: [],
    estimateTokens,
    unchangedSince: (read) => unchangedSince(rows, session.view, renderer, read),
  });
  const push = (origin: "assistant" | "tool", blocks: readonly unknown[], calls: readonly string[] = []): void => {
    const content = JSON.stringify(blocks);
    const at = seq(rows.length + 1);
    const role = origin === "assistant" ? "assistant" : "user";
    const sizes = { tokens: estimateRow(content), bytes: content.length };
    rows.push({
      id: `msg_${at}` as MessageId,
      seq: at,
      role,
      origin,
      content,
      media: [],
      calls,
      ...sizes,
      runId: "run_1" as RunId,
    });
  };
  const call = async (name: string, input: object): Promise<string> => {
    const id = `toolu_${rows.length + 1}`;
    push("assistant", [{ type: "tool_use", id, name, input }], [id]);
    const inputText = JSON.stringify(input);
    const run = { windowTokens: session.windowTokens } as RunContext;
    const exec = async () => {
      const result = await tools
        .find((tool) => tool.name === name)
        ?.call(input, { callId: id, inputText, signal: new AbortController().signal });
      if (result === undefined) throw new Error(`no tool ${name}`);
      return result;
    };
    const context = { callId: id, inputText, signal: new AbortController().signal };
    const result = await middleware.wrapToolCall?.({ id, name, inputText }, context, exec, run);
    push("tool", [{ type: "tool_result", tool_use_id: id, content: result?.content }]);
    return typeof result?.content === "string" ? result.content : "(media)";
  };
  return Object.assign(session, {
    call,
    read: (path: string, more: object = {}) => call("read_file", { file_path: path, ...more }),
    write: (path: string, text: string) => files.write(path as FilePath, text),
  });
};

describe("reading a file again", () => {
  let session: ReturnType<typeof reader>;
  beforeEach(async () => {
    session = reader();
    await session.write("/a.md", LONG);
  });

  it("is answered with a note while the earlier result is whole in the view, and with the text where the model asks once more (R6)", async () => {
    const whole = await session.read("/a.md");
    expect(whole).toContain("Line 299");
    expect(await session.read("a.md", { offset: 1 })).toBe(unchangedNote("/a.md", { callId: "toolu_1", seq: 2 }));
    expect(await session.read("/a.md")).toBe(whole);
    expect(await session.read("/a.md")).toContain("the result of call toolu_5, message 6");
  });

  it("is answered with the text once a compaction has taken the earlier result, also where the note is still there (R6)", async () => {
    const whole = await session.read("/a.md");
    expect(await session.read("/a.md")).toContain("is unchanged");
    session.view = {
      ...EMPTY_VIEW,
      generation: {
        number: 1,
        base: 0,
        covered: [{ from: seq(1), to: seq(2) }],
        summary: "",
        sections: EMPTY_SECTIONS,
        pinned: null,
        history: { kind: "api" },
        prefixVersion: 2,
      },
    };
    expect(await session.read("/a.md")).toBe(whole);
  });

  it("is answered with the text where the file has changed, other lines are asked for, or it is another file (R6)", async () => {
    await session.read("/a.md");
    await session.write("/b.md", LONG);
    expect(await session.read("/b.md")).toContain("Line 299");
    expect(await session.read("/a.md", { offset: 2 })).toMatch(/^ {5}2\tLine 1 /);
    await session.write("/a.md", `${LONG}!`);
    expect(await session.read("/a.md")).toContain("worth a note.!");
    await session.write("/a.md", LONG);
    expect(await session.read("/a.md")).toContain("is unchanged since you last read it");
  });

  it("is answered with the text where that is short, by a smaller measure in a smaller window (R6)", async () => {
    const short = LONG.slice(0, 2_000);
    await session.write("/short.md", short);
    await session.read("/short.md");
    expect(await session.read("/short.md")).toContain("Line 30");
    session.windowTokens = 6_000;
    expect(await session.read("/short.md")).toContain("is unchanged");
  });

  it("is never left out of the history, nor of what other tools answer (R6)", async () => {
    await session.write("/conversation_history/ses_1.md", LONG);
    await session.read("/conversation_history/ses_1.md");
    expect(await session.read("/conversation_history/ses_1.md")).toContain("Line 299");
    const grep = { pattern: "Line", path: "/a.md", output_mode: "content" };
    const found = await session.call("grep", grep);
    expect(estimateTokens(found)).toBeGreaterThan(1_000);
    expect(await session.call("grep", grep)).toBe(found);
  });

  it("says of what is missing the same as ever", async () => {
    const missing = await session.read("/none.md");
    expect([await session.read("/none.md"), missing.includes("There is no file")]).toEqual([missing, true]);
  });
});
