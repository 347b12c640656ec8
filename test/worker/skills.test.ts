/** Skills through the built Worker: given at creation, listed, loaded, lost in a compaction and loaded again (R5, V8). */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { skillMarker } from "../../src/context/lost-skills.ts";
import { skillFile } from "../../src/protocol/skill-file.ts";
import { compactingSession, occurrences, prose, rounds, talk, textOf } from "../support/compaction.ts";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { startWebhookReceiver } from "../support/webhook-receiver.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform();
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

const BODY = `# Refunds\n\n${"Check the order, then the payment, and write down both. ".repeat(150)}`;
const refunds = { name: "refunds", description: "How money is given back.", body: BODY };
const onCall = {
  name: "on-call",
  description: 'Who is called: "when" & how.',
  body: "Call Ada.",
  files: { "references/people.md": "Ada: 4711" },
};

const loadRefunds = [{ type: "tool_use" as const, id: "load_1", name: "load_skill", input: { name: "refunds" } }];

const reasonsOf = async (id: string) =>
  (await platform.database.sql("select reason from view_revisions where session_id = $1 order by revision", [id])).map(
    ({ reason }) => reason,
  );

describe("skills given at creation", () => {
  it("are listed behind the cache mark, stay the same from turn to turn, and a change is a recorded revision (V8, V2)", async () => {
    const session = await compactingSession(platform, {
      windowTokens: 100_000,
      fields: { skills: [onCall, refunds], system: prose(300, 3) },
      model: { cacheMinimumTokens: 256 },
    });
    const { id, call, answered, untouched, sent } = session;
    const first = await untouched(() => answered("load skill on-call"));
    expect(first.body.output_text).toContain(
      'load_skill "on-call" said:\nSkill "on-call", from /skills/on-call/SKILL.md. Other files of it, for read_file where the text refers to them: /skills/on-call/references/people.md (9 bytes).\n\nCall Ada.',
    );
    await answered("Two.");
    expect(await reasonsOf(id)).toEqual(["volatile"]);
    const requests = sent();
    const list = (request: { system: readonly object[] }) => textOf(request.system.slice(-1)).split("<skills>")[1];
    const marked = (request: { system: readonly object[] }) =>
      request.system.findIndex((block) => "cache_control" in block);
    expect(list(requests[0])).toBe(
      '\n- on-call: Who is called: "when" & how.\n- refunds: How money is given back.\n</skills>',
    );
    for (const request of requests) expect(marked(request)).toBe(requests[0].system.length - 2);
    const plain = (value: unknown) =>
      JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner));
    expect(plain(requests[2].messages.slice(0, requests[1].messages.length))).toBe(plain(requests[1].messages));
    expect([plain(requests[2].system), plain(requests[2].tools)]).toEqual([
      plain(requests[0].system),
      plain(requests[0].tools),
    ]);

    const changed = skillFile({ ...onCall, description: "Whom to call." });
    await call("PUT", `/v1/sessions/${id}/files/skills/on-call/SKILL.md`, changed, { "Content-Type": "text/markdown" });
    await call("PUT", `/v1/sessions/${id}/files/skills/broken/SKILL.md`, "# no", { "Content-Type": "text/markdown" });
    await untouched(() => answered("Three."));
    expect(await reasonsOf(id)).toEqual(["volatile", "volatile"]);
    expect(list(sent().at(-1))).toContain("- on-call: Whom to call.\n");
    const { body } = await call("GET", `/v1/sessions/${id}/context`);
    expect(body.skills).toEqual({
      listed: ["on-call", "refunds"],
      skipped: [{ path: "/skills/broken/SKILL.md", reason: 'does not begin with front matter (a line "---")' }],
    });
  });

  it("are refused with the path of what is wrong; a caller's tool may not be named load_skill", async () => {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const made = async (fields: object) => {
      const { status, body } = await call("POST", "/v1/sessions", fields);
      return [status, body.error?.param, body.error?.message];
    };
    const bad = (skill: object) => made({ skills: [onCall, { ...refunds, ...skill }] });
    expect([
      await bad({ name: "Refunds!" }),
      await bad({ name: "on-call" }),
      await bad({ description: " " }),
      await bad({ body: "ä".repeat(40_000) }),
      await bad({ files: { "../x": "y" } }),
      await bad({ files: { "SKILL.md": "y" } }),
      await bad({ text: "y" }),
      await made({ tools: [{ name: "load_skill", description: "x", input_schema: { type: "object" } }] }),
    ]).toEqual([
      [400, "skills[1].name", expect.stringContaining("lower-case letters and digits")],
      [400, "skills[1].name", expect.stringContaining("is used twice")],
      [400, "skills[1].description", expect.stringContaining("must not be blank")],
      [400, "skills[1].body", expect.stringContaining("at most 65536 are taken")],
      [400, expect.stringMatching(/^skills\[1\]\.files/), expect.stringContaining('".." is not allowed')],
      [400, expect.stringMatching(/^skills\[1\]\.files/), expect.stringContaining("is made of `name`")],
      [400, "skills[1].text", expect.stringContaining("unknown field")],
      [400, expect.stringMatching(/^tools\[0\]/), expect.stringContaining("one of hango's own tools")],
    ]);
  });

  it("are the same session for the same request, another for none, and 409 for others", async () => {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const create = async (skills: readonly object[]) => {
      const { status, body } = await call("POST", "/v1/sessions", { key: "k", skills });
      return [status, body.created ?? body.error?.code];
    };
    expect(await create([refunds])).toEqual([201, true]);
    expect(await create([refunds])).toEqual([200, false]);
    expect(await create([onCall])).toEqual([409, "key_conflict"]);
    // What was taken away since is not brought back by a repeat.
    await call("DELETE", "/v1/sessions/key:k/files/skills/refunds/SKILL.md");
    expect(await create([refunds])).toEqual([200, false]);
    expect((await call("GET", "/v1/sessions/key:k/files/skills/refunds/SKILL.md")).status).toBe(404);
  });

  /** A session as a request leaves it that dies between the row and the files: one of them written. */
  const halfMade = async (call: Call) => {
    const { body } = await call("POST", "/v1/sessions", { key: "half", skills: [refunds, onCall] });
    const paths = ["/skills/refunds/SKILL.md", "/skills/on-call/SKILL.md", "/skills/on-call/references/people.md"];
    const pending = await Promise.all(
      paths.map(async (path) => ({ path, text: (await call("GET", `/v1/sessions/key:half/files${path}`)).body })),
    );
    for (const path of paths.slice(1)) await call("DELETE", `/v1/sessions/key:half/files${path}`);
    await call("PUT", "/v1/sessions/key:half/files/skills/refunds/SKILL.md", skillFile({ ...refunds, body: "Mine." }), {
      "Content-Type": "text/markdown",
    });
    await platform.database.sql("update sessions set pending_files = $2 where id = $1", [
      body.id,
      JSON.stringify(pending),
    ]);
    return String(body.id);
  };
  const left = async (call: Call, id: string) => [
    (await call("GET", `/v1/sessions/${id}/files/skills/on-call/references/people.md`)).body,
    (await call("GET", `/v1/sessions/${id}/files/skills/refunds/SKILL.md`)).body.split("\n").at(-2),
    (await platform.database.sql("select pending_files from sessions where id = $1", [id]))[0]?.pending_files,
  ];

  it("are all there after a crash between row and files: the repeated request writes the rest, and over nothing", async () => {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const id = await halfMade(call);
    const again = await call("POST", "/v1/sessions", { key: "half", skills: [refunds, onCall] });
    expect([again.status, again.body.id, again.body.created]).toEqual([200, id, false]);
    expect(await left(call, id)).toEqual(["Ada: 4711", "Mine.", null]);
  });

  it("are all there after such a crash for the first turn too, also of a fork, without a repeated request", async () => {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const id = await halfMade(call);
    const fork = await call("POST", `/v1/sessions/${id}/fork`, { title: "Another" });
    expect(fork.status).toBe(201);
    const turn = await call("POST", `/v1/sessions/${id}/turns`, { input: "load skill on-call" });
    expect(turn.body.output_text).toContain("Call Ada.");
    expect(await left(call, id)).toEqual(["Ada: 4711", "Mine.", null]);
    const [row] = await platform.database.sql(
      "select pending_files is not null as pending from sessions where id = $1",
      [fork.body.id],
    );
    expect(row?.pending).toBe(true);
  });

  it("may be those of a trigger's sessions, for their first turn", async () => {
    const call = callerOf(platform.url, await makeTenant(platform.database));
    const secret = "a-secret-of-at-least-16";
    const receiver = await startWebhookReceiver();
    try {
      const made = await call("POST", "/v1/triggers", {
        type: "webhook",
        name: "asks",
        verification: { scheme: "bearer" },
        secret,
        session: { skills: [onCall] },
        session_key: "asked",
        prompt: "load skill on-call",
        reply: { url: receiver.url, body: { text: "{{run.output_text}}" } },
      });
      expect([made.status, made.body.error]).toEqual([201, undefined]);
      const posted = await fetch(made.body.url, {
        method: "POST",
        body: "{}",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${secret}`, Connection: "close" },
      });
      expect(posted.status).toBe(202);
      expect((await receiver.request(0)).json.text).toContain("Call Ada.");
    } finally {
      receiver.close();
    }
  });
});

describe("a skill that is compacted away", () => {
  it("is named in the handoff with the call that loads it again, whatever the summary says, until it is there again (R5)", async () => {
    const session = await compactingSession(platform, {
      windowTokens: 30_000,
      // Without the description of `task`: the third compaction frees little more than the share that it has to.
      fields: { skills: [refunds], subagents: false },
      context: { keep_frac: 0.3 },
    });
    const { id, call, load, scripted, untouched, sent, generations } = session;
    const marker = skillMarker("refunds");
    const compacted = async (summary: string) => {
      platform.simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: summary } });
      const { status, body } = await untouched(() => call("POST", `/v1/sessions/${id}/compact`, {}));
      expect([status, body.compacted]).toEqual([200, true]);
    };
    const chat = async (count: number) => {
      for (let nth = 0; nth < count; nth++) await untouched(() => scripted(`Next: ${prose(150, nth)}`, "Yes."));
    };
    const shown = () => {
      const messages = sent().at(-1)?.messages;
      const handoff = textOf(messages[0]);
      return { handoff, named: occurrences(handoff, marker), whole: textOf(messages).includes("write down both") };
    };
    await load(talk(3, 150));
    await scripted("Do a refund.", loadRefunds, "Done.");
    await chat(5);
    await compacted(`Nothing of note was done. ${marker}`);
    await chat(1);
    expect(shown()).toMatchObject({ named: 1, whole: false });
    expect(shown().handoff).toContain(
      `## Skills that had been loaded and whose text was left out, newest first\n- ${marker}`,
    );
    await chat(3);
    await compacted("Still nothing.");

    // The reload works, and while the handoff stands as it is the marker stays where it was.
    await scripted(
      "Another refund.",
      loadRefunds.map((block) => ({ ...block, id: "load_2" })),
      "Loaded.",
    );
    expect(shown()).toMatchObject({ named: 1, whole: true });
    await compacted("And again.");
    await chat(1);
    expect(shown()).toMatchObject({ named: 0, whole: true });
    expect((await generations()).length).toBe(3);
  });

  it("is replaced by the marker where a clip alone is enough, but not in what a cut would keep; the same in later turns (R5, V2)", async () => {
    const session = await compactingSession(platform, {
      windowTokens: 40_000,
      fields: { skills: [refunds] },
      context: { keep_frac: 0.4 },
    });
    const { scripted, load, untouched, lastSent, generations, revisions } = session;
    const loaded = (id: string, name: string) => [
      { role: "assistant" as const, content: [{ type: "tool_use", id, name: "load_skill", input: { name } }] },
      { role: "user" as const, content: [{ type: "tool_result", tool_use_id: id, content: BODY }] },
    ];
    await load([
      { role: "user", content: "Do a refund." },
      ...loaded("load_1", "refunds"),
      ...rounds(24, 5_000, "a"),
      // Not among the newest 20, nor named, but in the slice that a cut would keep.
      ...loaded("load_2", "reports"),
      ...rounds(11, 400, "b"),
      { role: "assistant", content: "Looked." },
    ]);
    await untouched(() => scripted("Go on.", "Yes."));
    expect([await generations(), (await revisions()).at(-1)]).toEqual([[], "clip"]);
    const shownOf = (id: string) =>
      lastSent()
        .messages.flatMap(({ content }: { content: unknown }) => (Array.isArray(content) ? content : []))
        .find((block: { tool_use_id?: string }) => block.tool_use_id === id)?.content;
    expect([shownOf("load_1"), shownOf("load_2")]).toEqual([skillMarker("refunds"), BODY]);
    expect(shownOf("a23")).toContain("…[clipped: ");
    const before = JSON.stringify(lastSent().messages.slice(0, 60));
    await untouched(() => scripted("And on.", "Yes."));
    expect(JSON.stringify(lastSent().messages.slice(0, 60))).toBe(before);
  });
});
