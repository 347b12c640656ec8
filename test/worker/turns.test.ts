import { describe, expect, it } from "vitest";
import { newId } from "../../src/protocol/ids.ts";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { openTurn, readEvents } from "../support/platform.ts";

useOwnSession();

const says = (content: unknown) => platform.simulator.enqueue({ reply: { content: content as string } });
const tool = (id: string, name: string, input: object) => ({ type: "tool_use" as const, id, name, input });
const log = async () => (await call("GET", `/v1/sessions/${session}/messages?order=asc&limit=100`)).body.data;

describe("a turn", () => {
  it("is answered as the finished run", async () => {
    says("Hello there.");
    const { status, headers, body } = await turn({ input: "hello" });
    expect(status).toBe(200);
    expect(headers.get("hango-run-id")).toBe(body.id);
    expect(body).toMatchObject({
      type: "run",
      status: "completed",
      session_id: session,
      output_text: "Hello there.",
      stop_reason: "end_turn",
      steps: 1,
      error: null,
    });
    expect(await call("GET", `/v1/runs/${body.id}`)).toMatchObject({ status: 200, body });
    expect(
      (await log()).map((row: { seq: number; role: string; content: unknown }) => [row.seq, row.role, row.content]),
    ).toEqual([
      [1, "user", [{ type: "text", text: "hello" }]],
      [2, "assistant", [{ type: "text", text: "Hello there." }]],
    ]);
  });

  it.each([
    ["is cut off", { kind: "cut", after_pieces: 2 }],
    ["ends in an error of the provider", { kind: "error_event", type: "overloaded_error", after_pieces: 2 }],
  ] as const)("asks again for an answer that %s, and stores one", async (_, fault) => {
    platform.simulator.enqueue({ fault, reply: { content: "An answer that breaks off." } });
    says("Whole now.");
    const events = await readEvents(await openTurn(platform.url, tenant, session, { input: "hello" }));
    expect(events.at(-2)).toMatchObject({
      event: "run.completed",
      data: { output_text: "Whole now.", steps: 1 },
    });
    expect((await log()).map((row: { role: string }) => row.role)).toEqual(["user", "assistant"]);
    expect(platform.simulator.requests).toHaveLength(2);
    const told = events.filter((event) => event.event === "message.started").map((event) => event.data.message_id);
    expect(new Set(told).size).toBe(2);
    expect(events.find((event) => event.event === "message.completed")?.data.message_id).toBe(told[1]);
  });

  it("without tools takes exactly 2 round trips to the database, authentication included", async () => {
    says("Hello.");
    const before = platform.database.requests();
    const { body } = await turn({ input: "hello" });
    expect(platform.database.requests() - before).toBe(2);
    expect(body.db_round_trips).toBe(2);
  });

  it("with 3 tool steps takes at most 8", async () => {
    says([tool("toolu_1", "write_file", { file_path: "/a.md", content: "a" })]);
    says([tool("toolu_2", "ls", { path: "/" }), tool("toolu_3", "read_file", { file_path: "/a.md" })]);
    says([tool("toolu_4", "write_todos", { todos: [{ content: "x", status: "pending" }] })]);
    says("Done.");
    const before = platform.database.requests();
    const { body } = await turn({ input: "work" });
    expect(body).toMatchObject({ status: "completed", steps: 4, output_text: "Done.", db_round_trips: 8 });
    expect(platform.database.requests() - before).toBe(8);
  });

  it("streams its events in order, ending with the run's end", async () => {
    says([{ type: "text", text: "Let me look." }, tool("toolu_1", "ls", { path: "/" })]);
    says("Nothing there.");
    const response = await openTurn(platform.url, tenant, session, { input: "list /" });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const events = await readEvents(response);
    const durable = events.filter((event) => event.id !== null);
    expect(durable.map((event) => event.event)).toEqual([
      "run.started",
      "message.completed",
      "tool.started",
      "tool.completed",
      "message.completed",
      "run.completed",
      "session.idle",
    ]);
    expect(durable.map((event) => event.id)).toEqual(
      durable.map((event) => event.id).toSorted((a, b) => Number(a) - Number(b)),
    );
    const deltas = events.filter((event) => event.event === "message.delta" && event.data.kind === "text");
    expect(deltas.map((event) => event.data.text).join("")).toBe("Let me look.Nothing there.");
    expect(events.filter((event) => event.event === "message.started")).toHaveLength(2);
    for (const event of events)
      expect(event.data).toMatchObject({ type: event.event, session_id: session, created_at: expect.any(String) });
  });

  it("can be attached to again, with the same events as were streamed", async () => {
    says([tool("toolu_1", "ls", { path: "/" })]);
    says("Nothing there.");
    const streamed = (await readEvents(await openTurn(platform.url, tenant, session, { input: "list /" }))).filter(
      (event) => event.id !== null,
    );
    const runId = streamed[0]?.data.run_id;
    const attach = (lastEventId?: number) =>
      fetch(`${platform.url}/v1/runs/${runId}/events`, {
        headers: { ...tenant.headers, ...(lastEventId === undefined ? {} : { "Last-Event-ID": String(lastEventId) }) },
      });
    expect(await readEvents(await attach())).toEqual(streamed);
    expect(await readEvents(await attach(streamed[2]?.id ?? 0))).toEqual(streamed.slice(3));
  });

  it("answers 202 when it takes longer than the caller waits, goes on, and is found by its id", async () => {
    platform.simulator.enqueue({ hold: "gate", reply: { content: "At last." } });
    const first = await turn({ input: "slow", wait: 0.2 });
    expect(first).toMatchObject({ status: 202, body: { status: "running", output_text: null } });
    expect((await call("GET", `/v1/sessions/${session}`)).body.status).toBe("running");
    const attached = fetch(`${platform.url}/v1/runs/${first.body.id}/events`, { headers: tenant.headers });
    await platform.simulator.reached("gate");
    platform.simulator.release("gate");
    expect((await readEvents(await attached)).map((event) => event.event)).toContain("run.completed");
    expect((await call("GET", `/v1/runs/${first.body.id}`)).body).toMatchObject({
      status: "completed",
      output_text: "At last.",
    });
  });

  it("goes on when its client goes away in the middle of the stream", async () => {
    platform.simulator.enqueue({
      hold: { name: "middle", at: "middle" },
      reply: { content: "The whole answer in the end." },
    });
    const response = await openTurn(platform.url, tenant, session, { input: "go" });
    const runId = response.headers.get("hango-run-id");
    await readEvents(response, (event) => event.event === "message.delta");
    await platform.simulator.reached("middle");
    platform.simulator.release("middle");
    const events = await readEvents(
      await fetch(`${platform.url}/v1/runs/${runId}/events`, { headers: tenant.headers }),
    );
    expect(events.at(-1)?.event).toBe("session.idle");
    expect((await log()).at(-1).content).toEqual([{ type: "text", text: "The whole answer in the end." }]);
  });

  it("stops at its step limit with every call answered, and the session goes on", async () => {
    platform.simulator.enqueue({
      times: 2,
      reply: { content: [{ type: "tool_use", name: "ls", input: { path: "/" } }] },
    });
    expect((await turn({ input: "loop", max_steps: 2 })).body).toMatchObject({
      status: "completed",
      stop_reason: "max_steps",
      steps: 2,
    });
    says("Fine.");
    expect((await turn({ input: "and now?" })).body).toMatchObject({ status: "completed", output_text: "Fine." });
    expect(await log()).toHaveLength(7);
  });

  it("makes the session of a key on its way, when asked to", async () => {
    const path = "/v1/sessions/key:fresh%20one/turns";
    expect((await call("POST", path, { input: "hello" })).status).toBe(404);
    says("Hello.");
    const { status, body } = await call("POST", path, { input: "hello", create: true });
    expect([status, body.output_text]).toEqual([200, "Hello."]);
    expect((await call("GET", "/v1/sessions/key:fresh%20one")).body).toMatchObject({
      id: body.session_id,
      key: "fresh one",
    });
    expect(
      (await call("POST", `/v1/sessions/${newId("ses")}/turns`, { input: "hello", create: true })).body.error,
    ).toMatchObject({ code: "invalid_request", param: "create" });
  });

  it("shows a session's stream across runs, from now on", async () => {
    says("First.");
    await turn({ input: "one" });
    const stream = await fetch(`${platform.url}/v1/sessions/${session}/events`, { headers: tenant.headers });
    says("Second.");
    const [events] = await Promise.all([
      readEvents(stream, (event) => event.event === "session.idle"),
      turn({ input: "two" }),
    ]);
    expect(events.map((event) => event.event)).toEqual([
      "run.started",
      "message.completed",
      "run.completed",
      "session.idle",
    ]);
    expect(events[0]?.data.content).toEqual([{ type: "text", text: "two" }]);
  });

  it.each([
    ["no input", {}, "input"],
    ["blank input", { input: "  " }, "input"],
    ["no blocks", { input: [] }, "input"],
    ["an empty text block", { input: [{ type: "text", text: "" }] }, "input[0].text"],
    ["a tool result", { input: [{ type: "tool_result", tool_use_id: "x" }] }, "input[0].type"],
    ["an unknown field", { input: "a", temprature: 1 }, "temprature"],
    ["another value of on_busy", { input: "a", on_busy: "wait" }, "on_busy"],
    ["too many steps", { input: "a", max_steps: 101 }, "max_steps"],
    [
      "bad base64",
      { input: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "*" } }] },
      "input[0].source.data",
    ],
    ["a file that is not there", { input: [{ type: "file", path: "/nothing" }] }, "input[0].path"],
    ["a path that leads out", { input: [{ type: "file", path: "/../x" }] }, "input[0].path"],
  ])("refuses %s and names the place", async (_name, body, param) => {
    const answer = await turn(body);
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([400, "invalid_request", param]);
    expect(await log()).toEqual([]);
  });
});

describe("tools", () => {
  it("run over the session's files, and what they answer reaches the model", async () => {
    says([tool("toolu_1", "write_file", { file_path: "/notes.md", content: "hango was here" })]);
    says([tool("toolu_2", "read_file", { file_path: "/notes.md" })]);
    says("Read.");
    await turn({ input: "write and read" });
    expect((await call("GET", `/v1/sessions/${session}/files/notes.md`)).body).toBe("hango was here");
    expect(JSON.stringify((await log()).at(-2).content)).toContain("hango was here");
  });

  it("that are unknown, or given wrong or broken input, are answered with what was expected; the run goes on", async () => {
    says([
      tool("toolu_1", "no_such_tool", {}),
      tool("toolu_2", "read_file", { path: 1 }),
      { type: "tool_use", id: "toolu_3", name: "ls", input_json: '{"path": "/' },
      tool("toolu_4", "read_file", { file_path: "/../../etc/passwd" }),
    ]);
    says("Understood.");
    expect((await turn({ input: "try" })).body).toMatchObject({ status: "completed", output_text: "Understood." });
    const results = (await log())[2].content;
    expect(
      results.map((block: { tool_use_id: string; is_error: boolean }) => [block.tool_use_id, block.is_error]),
    ).toEqual([
      ["toolu_1", true],
      ["toolu_2", true],
      ["toolu_3", true],
      ["toolu_4", true],
    ]);
    expect(results[0].content).toMatch(/Available tools: .*read_file/);
    expect(results[1].content).toMatch(/file_path/);
    expect(results[2].content).toMatch(/Expected input/);
  });

  it("lose no edit when they edit one file in one batch", async () => {
    says([tool("toolu_0", "write_file", { file_path: "/list.md", content: "a b c d e f" })]);
    says(
      ["a", "b", "c", "d", "e", "f"].map((letter, at) =>
        tool(`toolu_${at + 1}`, "edit_file", {
          file_path: "/list.md",
          old_string: letter,
          new_string: letter.toUpperCase(),
        }),
      ),
    );
    says("Done.");
    await turn({ input: "edit" });
    expect((await call("GET", `/v1/sessions/${session}/files/list.md`)).body).toBe("A B C D E F");
  });
});
