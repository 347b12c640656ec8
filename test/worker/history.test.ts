/** Rewinding and retrying through the built Worker: what the model is sent afterwards, what the log keeps. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type CompactingSession, compactingSession, prose, talk, textOf } from "../support/compaction.ts";
import { startTestPlatform, type TestPlatform } from "../support/platform.ts";

let platform: TestPlatform;

beforeAll(async () => {
  platform = await startTestPlatform({ variables: { HANGO_PROVIDER_MAX_RETRIES: "0" } });
}, 120_000);
afterAll(() => platform.close());
beforeEach(() => platform.simulator.reset());

const makeSession = (windowTokens = 100_000, fields: object = {}): Promise<CompactingSession> =>
  compactingSession(platform, { windowTokens, fields });
const THINKING = { thinking: { type: "adaptive" } };
const sentText = (session: CompactingSession): string => textOf(session.lastSent().messages);
const post = (session: CompactingSession, what: string, body: object = {}, headers: Record<string, string> = {}) =>
  session.call("POST", `/v1/sessions/${session.id}/${what}`, body, headers);
const rewind = (session: CompactingSession, body: object, headers: Record<string, string> = {}) =>
  session.untouched(() => post(session, "rewind", body, headers));
const everything = async (session: CompactingSession) =>
  (await session.call("GET", `/v1/sessions/${session.id}/messages?order=asc&limit=100&include_rewound=true`)).body.data;

describe("a rewind (R3)", () => {
  it("takes turns out of the next request and keeps them in the log, marked", async () => {
    const session = await makeSession();
    for (const name of ["one", "two", "three"]) await session.scripted(`ask ${name}`, `answer ${name}`);
    const { status, body } = await rewind(session, { turns: 2 });
    expect([status, body]).toEqual([
      200,
      {
        type: "rewind",
        session_id: session.id,
        undone: { first_seq: 3, last_seq: 6, messages: 4, turns: 2 },
        last_seq: 2,
        generation: 0,
        revision: 1,
        files_rewound: false,
        note: "Files are as the undone turns left them.",
      },
    ]);
    await session.scripted("ask four", "answer four");
    expect(sentText(session)).toBe("ask one\nanswer one\nask four");
    expect((await session.log()).map(({ seq, rewound }) => [seq, rewound])).toEqual(
      [1, 2, 7, 8].map((seq) => [seq, false]),
    );
    expect((await session.call("GET", `/v1/sessions/${session.id}`)).body).toMatchObject({
      rewound: [{ first_seq: 3, last_seq: 6 }],
      usage: { turns: 4 },
    });
    expect((await everything(session)).map((row: { rewound: boolean }) => row.rewound)).toEqual(
      [1, 2, 3, 4, 5, 6, 7, 8].map((seq) => seq > 2 && seq < 7),
    );
  });

  it("leaves the bytes before it as they were, thinking included, where no compaction goes out of force (V2, V5)", async () => {
    const session = await makeSession(100_000, THINKING);
    await session.answered("ask one");
    await session.answered("ask two");
    const before = session.lastSent();
    await session.answered("ask three");
    await rewind(session, { turns: 1 });
    await session.answered("ask four");
    const unmarked = (messages: unknown) =>
      JSON.parse(JSON.stringify(messages).replace(/,"cache_control":\{[^}]*\}/g, ""));
    expect(unmarked(session.lastSent().messages).slice(0, 3)).toEqual(unmarked(before.messages));
    expect(JSON.stringify(session.lastSent().messages)).toContain('"type":"thinking"');
    expect((await session.head()).thinking_floor).toBe(1);
    expect(session.rejections()).toEqual([]);
  });

  it.each<[object, string]>([
    [{ to_seq: 3 }, "to_seq: a turn must begin right after it; the nearest after which one does: 2 and 4"],
    [{ to_seq: 1 }, "to_seq: a turn must begin right after it; the nearest after which one does: 0 and 2"],
    [{ to_seq: 5 }, "to_seq: a turn must begin right after it; the nearest after which one does: 4"],
    [{ to_seq: 6 }, "to_seq: nothing stands after it, the last message is 6; the nearest before it: 4"],
    [{ to_seq: 99 }, "to_seq: nothing stands after it, the last message is 6; the nearest before it: 4"],
    [{ turns: 4 }, "turns: the session has 3 turns to undo; expected at most 3"],
  ])("refuses %j and says what would be right", async (target, message) => {
    const session = await makeSession();
    for (const name of ["one", "two", "three"]) await session.scripted(`ask ${name}`, `answer ${name}`);
    const { status, body } = await rewind(session, target);
    expect([status, body.error.code, body.error.message]).toEqual([400, "invalid_request", message]);
    expect((await session.log()).every(({ rewound }) => !rewound)).toBe(true);
  });

  it.each([{}, { turns: 1, to_seq: 2 }, { turns: 0 }, { to_seq: -1 }, { turns: 1.5 }])(
    "refuses the body %j",
    async (body) => {
      const session = await makeSession();
      expect((await post(session, "rewind", body)).status).toBe(400);
    },
  );

  it("of a session without turns is a conflict, and so is a retry", async () => {
    const session = await makeSession();
    for (const [what, body] of [
      ["rewind", { turns: 1 }],
      ["retry", {}],
    ] as const) {
      const answer = await post(session, what, body);
      expect([answer.status, answer.body.error.code]).toEqual([409, "nothing_to_undo"]);
    }
  });

  it("to the beginning leaves an empty log to the model", async () => {
    const session = await makeSession();
    await session.scripted("ask one", "answer one");
    expect((await rewind(session, { to_seq: 0 })).body.last_seq).toBe(0);
    await session.scripted("ask two", "answer two");
    expect(sentText(session)).toBe("ask two");
  });

  it("again goes on from what is left, across what was undone before", async () => {
    const session = await makeSession();
    for (const name of ["one", "two", "three"]) await session.scripted(`ask ${name}`, `answer ${name}`);
    await rewind(session, { turns: 1 });
    await session.scripted("ask four", "answer four");
    expect((await rewind(session, { turns: 2 })).body.undone).toEqual({
      first_seq: 3,
      last_seq: 8,
      messages: 4,
      turns: 2,
    });
    await session.scripted("ask five", "answer five");
    expect(sentText(session)).toBe("ask one\nanswer one\nask five");
  });

  it("is done once for equal requests with one key, and answered the same", async () => {
    const session = await makeSession();
    for (const name of ["one", "two", "three"]) await session.scripted(`ask ${name}`, `answer ${name}`);
    const key = { "Idempotency-Key": `rewind-${session.id}` };
    const answers = await Promise.all([1, 2, 3].map(() => rewind(session, { turns: 1 }, key)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(new Set(answers.map(({ body }) => body.undone.first_seq))).toEqual(new Set([5]));
    await session.scripted("ask four", "answer four");
    expect((await rewind(session, { turns: 1 }, key)).body).toEqual(answers[0]?.body);
    expect((await rewind(session, { turns: 2 }, key)).body.error.code).toBe("idempotency_mismatch");
    expect((await session.log()).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 7, 8]);
  });

  it.each([
    ["is queued", "queued", "lease_holder = null"],
    ["is at work", "running", "lease_holder = $1, lease_expires_at = hango_now() + interval '1 minute'"],
    [
      "died and is to be continued",
      "running",
      "lease_holder = $1, lease_expires_at = hango_now() - interval '1 minute'",
    ],
    [
      "waits for tool results",
      "requires_action",
      "waiting_run_id = $1, waiting_until = hango_now() + interval '1 minute'",
    ],
  ])("waits for a run that %s", async (_, status, head) => {
    const session = await makeSession();
    const { body } = await session.scripted("ask one", "answer one");
    await platform.database.sql("update runs set status = $1 where id = $2", [status, body.id]);
    await platform.database.sql(
      `update session_heads set ${head} where session_id = (select session_id from runs where id = $1)`,
      [body.id],
    );
    for (const [what, request] of [
      ["rewind", { turns: 1 }],
      ["retry", {}],
    ] as const) {
      const answer = await post(session, what, request);
      expect([answer.status, answer.body.error.code, answer.body.error.run_id]).toEqual([409, "session_busy", body.id]);
    }
  });

  it("restores the todos that stood before the undone turns", async () => {
    const session = await makeSession();
    const write = (content: string) => [
      {
        type: "tool_use",
        id: `toolu_${content}`,
        name: "write_todos",
        input: { todos: [{ content, status: "pending" }] },
      } as const,
    ];
    const todos = async () =>
      (await platform.database.sql("select todos from sessions where id = $1", [session.id]))[0]?.todos;
    await session.scripted("plan", write("first"), "planned");
    await session.scripted("plan anew", write("second"), "planned");
    await session.scripted("go on", "went on");
    await rewind(session, { turns: 1 });
    expect(await todos()).toEqual([{ content: "second", status: "pending" }]);
    await rewind(session, { turns: 1 });
    expect(await todos()).toEqual([{ content: "first", status: "pending" }]);
    await rewind(session, { turns: 1 });
    expect(await todos()).toEqual([]);
  });
});

describe("rewinds, retries and turns at once", () => {
  it("take each other's place whole or not at all: no half turn, no lost message, nothing undone shown", async () => {
    const session = await makeSession();
    for (const name of ["one", "two", "three"]) await session.scripted(`ask ${name}`, `answer ${name}`);
    const turn = (at: number) =>
      session.call("POST", `/v1/sessions/${session.id}/turns`, { input: `ask at once ${at}`, on_busy: "queue" });
    const answers = await Promise.all([
      ...[1, 2, 3, 4].map(turn),
      ...[1, 2, 3].map(() => post(session, "rewind", { turns: 1 })),
      ...[1, 2].map(() => post(session, "retry")),
    ]);
    for (const { status } of answers) expect([200, 409]).toContain(status);
    for (const { status } of answers.slice(0, 4)) expect(status).toBe(200);
    const rows = await everything(session);
    expect(rows.map(({ role }: { role: string }) => role)).toEqual(
      rows.map((_: unknown, at: number) => (at % 2 === 0 ? "user" : "assistant")),
    );
    for (let at = 0; at < rows.length; at += 2) expect(rows[at].rewound).toBe(rows[at + 1].rewound);
    await session.answered("ask last");
    expect(session.lastSent().messages).toHaveLength((await session.log()).length - 1);
    expect(session.rejections()).toEqual([]);
  });
});

describe("a rewind across compactions (R3)", () => {
  const SECRET = "walrus";

  it("puts every generation out of force that covers or restates an undone message, and no later one or file brings it back", async () => {
    const session = await makeSession(20_000, THINKING);
    await session.load(talk(10, 60));
    await session.answered(`remember ${SECRET}: ${prose(100)}`);
    for (let turn = 0; turn < 3; turn++) await session.answered(`more ${turn}: ${prose(300, turn)}`);
    await post(session, "compact");
    expect(await session.generations()).toHaveLength(1);
    expect(await session.history()).toContain(SECRET);
    await rewind(session, { to_seq: 20 });
    await session.answered("what do you know?");
    expect(sentText(session)).not.toContain(SECRET);
    expect(sentText(session)).toContain("Question q0");
    for (let turn = 0; turn < 3; turn++) await session.answered(`later ${turn}: ${prose(300, turn + 9)}`);
    await post(session, "compact");
    expect((await session.generations()).map(({ base_generation }) => base_generation)).toEqual([0, 0]);
    await session.scripted(
      "look it up",
      [
        {
          type: "tool_use",
          id: "toolu_1",
          name: "read_file",
          input: { file_path: `/conversation_history/${session.id}.md`, limit: 2000 },
        },
      ],
      [
        {
          type: "tool_use",
          id: "toolu_2",
          name: "grep",
          input: { pattern: SECRET, path: "/", output_mode: "content" },
        },
      ],
      "done",
    );
    expect(sentText(session)).toContain("Question q0");
    expect(session.rejections()).toEqual([]);
    // What is left of it is what the grep looked for.
    expect(sentText(session).split(SECRET)).toHaveLength(2);
  });
});

describe("a retry", () => {
  it("undoes the last turn and runs its input again as a new row, in one go", async () => {
    const session = await makeSession();
    await session.scripted("ask one", "answer one");
    const first = await session.scripted("ask two", "answer two");
    platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "another answer" } });
    const again = await session.untouched(() => post(session, "retry"));
    expect([again.status, again.body.output_text, again.body.input_seq]).toEqual([200, "another answer", 5]);
    expect(again.body.id).not.toBe(first.body.id);
    expect(sentText(session)).toBe("ask one\nanswer one\nask two");
    const rows = await everything(session);
    expect(rows[4].content).toEqual(rows[2].content);
    expect(rows[4].id).not.toBe(rows[2].id);
    expect(rows.map((row: { rewound: boolean }) => row.rewound)).toEqual([false, false, true, true, false, false]);
    expect(again.body.db_round_trips).toBe(4);
  });

  it("runs a turn that failed", async () => {
    const session = await makeSession();
    platform.simulator.enqueue({ match: { purpose: "turn" }, fault: { kind: "status", status: 401 } });
    expect((await session.turn("ask one")).status).toBeGreaterThan(400);
    platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "now it works" } });
    const again = await post(session, "retry");
    expect([again.status, again.body.output_text]).toEqual([200, "now it works"]);
    expect(sentText(session)).toBe("ask one");
  });

  it("is run once for equal requests with one key", async () => {
    const session = await makeSession();
    await session.scripted("ask one", "answer one");
    await session.scripted("ask two", "answer two");
    const key = { "Idempotency-Key": `retry-${session.id}` };
    const answers = await Promise.all([1, 2, 3].map(() => post(session, "retry", {}, key)));
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
    expect((await session.log()).map(({ seq }) => seq)).toEqual([1, 2, 5, 6]);
    expect((await post(session, "retry", { max_steps: 3 }, key)).body.error.code).toBe("idempotency_mismatch");
  });

  it("without a key at once by several makes one run after the other or says busy, and loses nothing", async () => {
    const session = await makeSession();
    await session.scripted("ask one", "answer one");
    const answers = await Promise.all([1, 2, 3].map(() => post(session, "retry")));
    for (const { status } of answers) expect([200, 409]).toContain(status);
    expect((await session.log()).map(({ role }) => role)).toEqual(["user", "assistant"]);
  });

  it("answers 202 when it is not waited for", async () => {
    const session = await makeSession();
    await session.scripted("ask one", "answer one");
    platform.simulator.enqueue({ match: { purpose: "turn" }, hold: { name: "answer", at: "start" } });
    const answer = await post(session, "retry", { wait: 0 });
    expect([answer.status, answer.body.status]).toEqual([202, "running"]);
    await platform.simulator.reached("answer");
    platform.simulator.release("answer");
  });
});

describe("a fork", () => {
  const forked = async (session: CompactingSession, body: object = {}): Promise<CompactingSession> => {
    const answer = await session.untouched(() => post(session, "fork", body));
    expect([answer.status, answer.body.error, answer.body.status]).toEqual([201, undefined, "idle"]);
    return session.as(answer.body.id);
  };
  const handoffOf = (session: CompactingSession): string => textOf(session.lastSent().messages[0]);

  it("goes on from the same context in a session of its own, and keeps working when the original is erased", async () => {
    const session = await makeSession(20_000, THINKING);
    await session.load(talk(20, 60));
    await session.answered("the first question");
    await post(session, "compact");
    expect(await session.generations()).toHaveLength(1);
    await session.call("PUT", `/v1/sessions/${session.id}/files/notes.md`, "keep this");
    const copy = await forked(session, { title: "Another way" });
    const history = await session.history();
    await session.answered("only here");
    expect((await session.call("DELETE", `/v1/sessions/${session.id}`)).status).toBe(200);
    await vi.waitFor(async () => {
      const [erasure] = await platform.database.sql("select swept_at from erasures where session_id = $1", [
        session.id,
      ]);
      expect(erasure?.swept_at).not.toBeNull();
    }, 10_000);
    await copy.scripted(
      "look it up",
      [
        {
          type: "tool_use",
          id: "toolu_1",
          name: "read_file",
          input: { file_path: `/conversation_history/${copy.id}.md` },
        },
        { type: "tool_use", id: "toolu_2", name: "read_file", input: { file_path: "/notes.md" } },
      ],
      "done",
    );
    expect(handoffOf(copy)).toContain(`/conversation_history/${copy.id}.md`);
    expect(JSON.stringify(copy.lastSent())).not.toContain(session.id);
    expect(sentText(copy)).toContain("keep this");
    expect(sentText(copy)).toContain("Question q0");
    expect(sentText(copy)).not.toContain("only here");
    expect(await copy.history()).toBe(history);
    const { body } = await copy.call("GET", `/v1/sessions/${copy.id}`);
    expect([body.title, body.forked_from, body.usage.turns]).toEqual(["Another way", session.id, 1]);
    expect(copy.rejections()).toEqual([]);
  });

  it("at an earlier message has nothing of what came later, compactions and history included (R3)", async () => {
    const session = await makeSession(20_000, THINKING);
    await session.load(talk(20, 60));
    await session.answered("the secret is walrus");
    for (let turn = 0; turn < 3; turn++) await session.answered(`more ${turn}: ${prose(300, turn)}`);
    await post(session, "compact");
    expect(await session.history()).toContain("walrus");
    const copy = await forked(session, { at_seq: 40 });
    expect(await copy.generations()).toEqual([]);
    await copy.answered("what do you know?");
    expect(sentText(copy)).toContain("Question q0");
    expect(sentText(copy)).not.toContain("walrus");
    expect((await copy.file(`/conversation_history/${copy.id}.md`)).status).toBe(404);
  });

  it("has new ids, no usage, no key, and the undone turns of the original as undone", async () => {
    const session = await makeSession();
    for (const name of ["one", "two", "three"]) await session.scripted(`ask ${name}`, `answer ${name}`);
    await rewind(session, { turns: 1 });
    const answer = await post(session, "fork");
    expect(answer.body.usage).toMatchObject({ turns: 0, input_tokens: 0, cost_usd: 0 });
    expect([answer.body.key, answer.body.forked_at_seq]).toEqual([null, 6]);
    const copy = session.as(answer.body.id);
    const [theirs, ours] = [await everything(session), await everything(copy)];
    expect(ours.map(({ content, seq, rewound }: Record<string, unknown>) => [content, seq, rewound])).toEqual(
      theirs.map(({ content, seq, rewound }: Record<string, unknown>) => [content, seq, rewound]),
    );
    expect(new Set([...theirs, ...ours].map(({ id }: { id: string }) => id)).size).toBe(12);
    expect(ours.every(({ id }: { id: string }) => /^msg_[0-9A-Z]{26}$/.test(id))).toBe(true);
    await copy.scripted("ask four", "answer four");
    expect(sentText(copy)).toBe("ask one\nanswer one\nask two\nanswer two\nask four");
  });
});
