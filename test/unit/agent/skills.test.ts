import { describe, expect, it } from "vitest";
import { filesystemMiddleware } from "../../../src/agent/filesystem.ts";
import { findSkills, skillsMiddleware } from "../../../src/agent/skills.ts";
import { estimateTokens } from "../../../src/context/estimate.ts";
import type { FileSystem } from "../../../src/files/filesystem.ts";
import { memoryFileSystem } from "../../../src/files/memory.ts";
import type { RequestDraft, RunContext } from "../../../src/protocol/middleware.ts";
import { MAX_SKILLS, skillFile } from "../../../src/protocol/skill-file.ts";
import { at } from "../files/contract.ts";

let clock = 0;
const filesOf = async (contents: Readonly<Record<string, string>>): Promise<FileSystem> => {
  const files = memoryFileSystem(() => ++clock);
  for (const [path, text] of Object.entries(contents)) await files.write(at(path), text);
  return files;
};

const skill = (name: string, description = `About ${name}.`, body = `Do ${name}.`) => ({
  [`/skills/${name}/SKILL.md`]: skillFile({ name, description, body }),
});

const newRun = (windowTokens = 200_000) =>
  ({
    windowTokens,
    state: { messages: [], private: { skills: { listed: [], skipped: [] }, volatile: new Map<string, string>() } },
  }) as unknown as RunContext;

/** A turn's start, and what its requests are then given. */
const begun = async (files: FileSystem, run = newRun()) => {
  const middleware = skillsMiddleware({ files, estimateTokens });
  await middleware.beforeTurn?.(run);
  const draft: RequestDraft = { system: [], tools: [], providerTools: [], messages: [] };
  await middleware.assemble?.(draft, run);
  return { run, draft, middleware };
};

const loading = async (files: FileSystem, name: string, run = newRun()) => {
  const { draft } = await begun(files, run);
  const signal = new AbortController().signal;
  const result = await draft.tools[0]?.call({ name }, { callId: "c", inputText: "{}", signal });
  return { text: String(result?.content), isError: result?.isError === true };
};

describe("the list of skills", () => {
  it("is their names and descriptions in the order of names, one a line, as one system block with the tool (V8)", async () => {
    const files = await filesOf({ ...skill("b-2", "Two\n  lines."), ...skill("a"), "/skills/a/more.md": "more" });
    const { draft, run } = await begun(files);
    expect(draft.system.map(({ text }) => text.split("<skills>")[1])).toEqual([
      "\n- a: About a.\n- b-2: Two lines.\n</skills>",
    ]);
    expect(draft.tools.map(({ name, idempotent, parallel, offload }) => [name, idempotent, parallel, offload])).toEqual(
      [["load_skill", true, true, false]],
    );
    expect(run.state.private.volatile.get("skills")).toBe("- a: About a.\n- b-2: Two lines.");
  });

  it("costs one request to the files where there are none, and nothing of the prompt", async () => {
    const files = await filesOf({ "/skills.md": "no", "/notes/SKILL.md": "no" });
    let asked = 0;
    const counting = new Proxy(files, {
      get: (target, key) => {
        const method: unknown = Reflect.get(target, key);
        return typeof method === "function"
          ? (...args: unknown[]) => {
              asked++;
              return Reflect.apply(method, target, args);
            }
          : method;
      },
    });
    const { draft, run } = await begun(counting);
    expect([asked, draft.system, draft.tools, run.state.private.volatile.size]).toEqual([1, [], [], 0]);
  });

  it("leaves out what is broken, and says where and why", async () => {
    const files = await filesOf({
      ...skill("good"),
      "/skills/bad/SKILL.md": "# no front matter",
      "/skills/renamed/SKILL.md": skillFile({ name: "other", description: "x", body: "" }),
      "/skills/huge/SKILL.md": skillFile({ name: "huge", description: "x", body: "y".repeat(70_000) }),
      "/skills/Big_Name/SKILL.md": skillFile({ name: "x", description: "x", body: "" }),
      "/skills/empty/notes.md": "x",
      "/skills/nameless/SKILL.md": "---\ndescription: Fine.\n---\n",
    });
    const { listed, skipped } = await findSkills(files);
    expect(listed).toEqual([
      { name: "good", description: "About good." },
      { name: "nameless", description: "Fine." },
    ]);
    expect(Object.fromEntries(skipped.map(({ path, reason }) => [path, reason]))).toEqual({
      "/skills/Big_Name/SKILL.md":
        "is in a folder whose name is no skill's: lower-case letters and digits, joined by single hyphens",
      "/skills/bad/SKILL.md": 'does not begin with front matter (a line "---")',
      "/skills/empty/SKILL.md": "is not there",
      "/skills/huge/SKILL.md": expect.stringMatching(/^has 70,\d+ bytes; at most 65,536 are taken/),
      "/skills/renamed/SKILL.md": 'names itself "other", which is not its folder\'s name',
    });
  });

  it("is bounded in skills and in characters", async () => {
    const names = Array.from({ length: MAX_SKILLS + 3 }, (_, nth) => `s${String(nth).padStart(3, "0")}`);
    const many = await findSkills(await filesOf(Object.assign({}, ...names.map((name) => skill(name)))));
    expect([many.listed.length, many.skipped.map(({ path }) => path)]).toEqual([
      MAX_SKILLS,
      names.slice(MAX_SKILLS).map((name) => `/skills/${name}/SKILL.md`),
    ]);
    const wide = await findSkills(
      await filesOf(Object.assign({}, ...names.slice(0, 40).map((name) => skill(name, "d".repeat(1_024))))),
    );
    expect(wide.listed.length).toBe(31);
    expect(wide.skipped[0]?.reason).toBe("does not fit: the list has at most 32768 characters");
  });
});

describe("load_skill", () => {
  it("answers the whole text, and names the folder's other files (idempotent)", async () => {
    const files = await filesOf({
      ...skill("refunds", "x", "# Refunds\n\nRun check.py."),
      "/skills/refunds/scripts/check.py": "print()",
    });
    const once = await loading(files, "refunds");
    expect(once).toEqual({
      text: 'Skill "refunds", from /skills/refunds/SKILL.md. Other files of it, for read_file where the text refers to them: /skills/refunds/scripts/check.py (7 bytes).\n\n# Refunds\n\nRun check.py.',
      isError: false,
    });
    expect(await loading(files, " refunds ")).toEqual(once);
  });

  it.each(["nope", "", "../a", "a/../a", "A", "x".repeat(300)])(
    "answers an error that names those there are: %j",
    async (name) => {
      const { text, isError } = await loading(await filesOf({ ...skill("a"), ...skill("b") }), name);
      expect([isError, text]).toEqual([
        true,
        `There is no skill ${JSON.stringify(name.slice(0, 80))}. Available skills: a, b.`,
      ]);
    },
  );

  it("finds a skill that was made in this turn, and says what is wrong with one that is broken", async () => {
    const files = await filesOf({ ...skill("a"), "/skills/bad/SKILL.md": "no" });
    expect(await loading(files, "bad")).toEqual({
      text: 'The skill cannot be loaded: /skills/bad/SKILL.md does not begin with front matter (a line "---").',
      isError: true,
    });
    const { draft } = await begun(files);
    await files.write(at("/skills/new/SKILL.md"), skillFile({ name: "new", description: "x", body: "New." }));
    const signal = new AbortController().signal;
    const result = await draft.tools[0]?.call({ name: "new" }, { callId: "c", inputText: "{}", signal });
    expect(result).toEqual({ content: 'Skill "new", from /skills/new/SKILL.md. It has no other files.\n\nNew.' });
  });

  it("refuses a text over its bound, or over a quarter of a small window, with the way to read it", async () => {
    const long = await filesOf({
      ...skill("a"),
      ...skill("b", "x", "word ".repeat(4_000)),
      ...skill("c", "x", "w".repeat(66_000)),
    });
    expect(await loading(long, "b")).toMatchObject({ isError: false });
    expect((await loading(long, "b", newRun(8_000))).text).toMatch(
      /^The text of the skill has about [\d,]+ tokens, and at most 2,000 fit .* read_file {"file_path":"\/skills\/b\/SKILL.md"}\.$/,
    );
    expect(await loading(long, "c")).toEqual({
      text: expect.stringMatching(/^The skill cannot be loaded: .* has 66,\d+ bytes; at most 65,536 are taken/),
      isError: true,
    });
  });

  it("is never offloaded: a skill is whole in the log (R5)", async () => {
    const files = await filesOf({});
    const middleware = filesystemMiddleware({
      files,
      tools: [],
      whole: ["load_skill"],
      estimateTokens,
      unchangedSince: () => null,
    });
    const text = "long ".repeat(12_000);
    const call = (name: string) =>
      middleware.wrapToolCall?.(
        { id: "toolu_1", name, inputText: "{}" },
        { callId: "toolu_1", inputText: "{}", signal: new AbortController().signal },
        async () => ({ content: text }),
        newRun(100_000),
      );
    expect(await call("load_skill")).toEqual({ content: text });
    expect(String((await call("other"))?.content).length).toBeLessThan(text.length);
  });
});
