/** What was stored is what is sent: rule V9, and V10 for media, through the built Worker, seen on the wire. */
import { describe, expect, it } from "vitest";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { openTurn, readEvents } from "../support/platform.ts";

useOwnSession({ thinking: { type: "adaptive" } });

const sent = () =>
  platform.simulator.requests.filter(({ path }) => path === "/v1/messages").map(({ bodyText }) => bodyText);

/** Each of these changes when it is parsed and written again. */
const RAW_INPUT =
  '{"10": "ten", "2": "two", "one": 1.0, "big": 12345678901234567890, "exp": 1e2, "nul": "a\\u0000b", "slash": "\\/", "escaped": "\\u00e9\\ud83d\\ude00", "emoji": "😀", "path": "/x"}';

describe("bytes (V9)", () => {
  it("of a call that the caller has to answer are the same in the run that waits", async () => {
    const tools = [{ name: "ask_user", description: "Asks.", input_schema: { type: "object" } }];
    const waiting = (await call("POST", "/v1/sessions", { tools })).body.id;
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_ask", name: "ask_user", input_json: RAW_INPUT }] },
    });
    const { body } = await call("POST", `/v1/sessions/${waiting}/turns`, { input: "ask" });
    expect(body).toMatchObject({ status: "requires_action" });
    for (const path of [`runs/${body.id}`, `sessions/${waiting}/runs`]) {
      const answer = await fetch(`${platform.url}/v1/${path}`, { headers: tenant.headers });
      expect(await answer.text()).toContain(`"tool_calls":[{"id":"toolu_ask","name":"ask_user","input":${RAW_INPUT}}]`);
    }
  });

  it("of an answer are the same in the request of the next turn: tool input, thinking, text", async () => {
    const words = 'Ünï "quoted" \\ back\u0000nul \u2028 😀 </script>';
    platform.simulator.enqueue({
      reply: {
        content: [
          { type: "thinking", thinking: "Hmm. 😀 \u0000 1.0" },
          { type: "text", text: words },
          { type: "tool_use", id: "toolu_bytes", name: "ls", input_json: RAW_INPUT },
        ],
      },
    });
    platform.simulator.enqueue({ reply: { content: "Done." } });
    platform.simulator.enqueue({ reply: { content: "Again." } });
    expect((await turn({ input: "first" })).status).toBe(200);
    expect((await turn({ input: "second" })).status).toBe(200);
    const [, afterTool, nextTurn] = sent();
    for (const body of [afterTool, nextTurn]) {
      expect(body).toContain(`"input":${RAW_INPUT}`);
      expect(body).toContain(JSON.stringify(words));
      expect(body).toContain('"thinking":"Hmm. 😀 \\u0000 1.0"');
    }
    const thinking = (body: string | undefined) => /\{"type":"thinking".*?"signature":"[^"]+"\}/.exec(body ?? "")?.[0];
    expect(thinking(nextTurn)).toBeDefined();
    expect(thinking(nextTurn)).toBe(thinking(afterTool));
    const [stored] = await platform.database.sql(
      "select content::text as text from messages where session_id = $1 and seq = 2",
      [session],
    );
    expect(afterTool).toContain(String(stored?.text));
  });

  it("of a turn's request begin with the bytes of the one before, cache marks aside", async () => {
    for (let n = 1; n <= 4; n++) {
      platform.simulator.enqueue({ reply: { content: [{ type: "tool_use", name: "ls", input: { path: "/" } }] } });
      platform.simulator.enqueue({ reply: { content: `Answer ${n}.` } });
      await turn({ input: `Question ${n}` });
    }
    const bodies = sent().map((body) => body.replaceAll(',"cache_control":{"type":"ephemeral"}', ""));
    expect(bodies).toHaveLength(8);
    const messages = bodies.map((body) => /"messages":\[(.*)\]/s.exec(body)?.[1] ?? "");
    for (const [at, body] of messages.entries())
      if (at > 0) expect(body.startsWith(messages[at - 1] ?? "?")).toBe(true);
  });

  it("are read from the provider's cache from the second call on", async () => {
    platform.simulator.setModels({ "claude-sonnet-5-5": { cacheMinimumTokens: 16 } });
    platform.simulator.enqueue({ reply: { content: [{ type: "tool_use", name: "ls", input: { path: "/" } }] } });
    platform.simulator.enqueue({ reply: { content: "One." } });
    platform.simulator.enqueue({ reply: { content: "Two." } });
    const first = (await turn({ input: "one" })).body.usage;
    const second = (await turn({ input: "two" })).body.usage;
    expect(first.cache_creation_input_tokens).toBeGreaterThan(0);
    expect(first.cache_read_input_tokens).toBeGreaterThan(0);
    expect(
      second.cache_read_input_tokens /
        (second.input_tokens + second.cache_creation_input_tokens + second.cache_read_input_tokens),
    ).toBeGreaterThan(0.9);
  });

  it.each([
    ["as an escape", '{"input": "broken \\ud83d here"}'],
    ["in a block", '{"input": [{"type": "text", "text": "broken \\ude00 here"}]}'],
  ])("that are lone surrogates %s are repaired at the door and never reach the provider", async (_name, body) => {
    platform.simulator.enqueue({ reply: { content: "Fine." } });
    expect((await turn(body)).body).toMatchObject({ status: "completed", output_text: "Fine." });
    expect(sent()[0]).toContain("broken \ufffd here");
  });

  it("of a model's lone surrogates are repaired before they are stored, so that the next request is valid", async () => {
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ls", input_json: '{"path": "/\\ud83d"}' }] },
    });
    platform.simulator.enqueue({ reply: { content: "Fine." } });
    expect((await turn({ input: "go" })).body).toMatchObject({ status: "completed" });
    expect(sent()[1]).toContain('{"path": "/\\ufffd"}');
  });

  it("of input that is no JSON object are kept for the model to see, and the row stays valid", async () => {
    platform.simulator.enqueue({
      fault: { kind: "truncate", tokens: 12 },
      reply: {
        content: [
          {
            type: "tool_use",
            id: "toolu_cut",
            name: "write_file",
            input: { file_path: "/a.md", content: "x".repeat(400) },
          },
        ],
      },
    });
    platform.simulator.enqueue({ reply: { content: "Once more." } });
    const { body } = await turn({ input: "write" });
    expect(body).toMatchObject({ status: "completed", output_text: "Once more." });
    expect(sent()[1]).toContain('"is_error":true');
  });

  it("of an event's content are those of the log", async () => {
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "ls", input_json: RAW_INPUT }] },
    });
    platform.simulator.enqueue({ reply: { content: "Done." } });
    const events = await readEvents(await openTurn(platform.url, tenant, session, { input: "go" }));
    expect(events.find((event) => event.event === "message.completed")?.raw).toContain(RAW_INPUT);
    const messages = await fetch(`${platform.url}/v1/sessions/${session}/messages?order=asc`, {
      headers: tenant.headers,
    });
    expect(await messages.text()).toContain(RAW_INPUT);
  });
});

describe("media (V10)", () => {
  /** A PNG by its head, and then as large as a photograph. */
  const png = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(120_000, 7)]).toString("base64");

  it("over 64 KB are kept in the bucket by hash, and reach the model whole, in every turn", async () => {
    platform.simulator.enqueue({ times: 2, reply: { content: "Seen." } });
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: png } };
    expect((await turn({ input: [image, { type: "text", text: "What is it?" }] })).body).toMatchObject({
      status: "completed",
    });
    expect((await turn({ input: "And again?" })).status).toBe(200);
    for (const body of sent()) expect(body).toContain(`"data":"${png}"`);
    const [row] = await platform.database.sql(
      "select content::text as text, media, bytes from messages where session_id = $1 and seq = 1",
      [session],
    );
    expect(String(row?.text).length).toBeLessThan(400);
    expect(row?.media).toHaveLength(1);
    expect(Number(row?.bytes)).toBeGreaterThan(png.length);
  });

  it("from a file of the session become a block, read once at the door", async () => {
    platform.simulator.enqueue({ reply: { content: "Seen." } });
    await fetch(`${platform.url}/v1/sessions/${session}/files/photo.png`, {
      method: "PUT",
      headers: { ...tenant.headers, "Content-Type": "image/png" },
      body: Buffer.from(png, "base64"),
    });
    expect(
      (
        await turn({
          input: [
            { type: "file", path: "/photo.png" },
            { type: "text", text: "What is it?" },
          ],
        })
      ).body.status,
    ).toBe("completed");
    expect(sent()[0]).toContain(`"data":"${png}"`);
  });

  it("that a tool reads are kept the same way", async () => {
    platform.simulator.enqueue({
      reply: { content: [{ type: "tool_use", id: "toolu_1", name: "read_file", input: { file_path: "/photo.png" } }] },
    });
    platform.simulator.enqueue({ reply: { content: "Seen." } });
    await fetch(`${platform.url}/v1/sessions/${session}/files/photo.png`, {
      method: "PUT",
      headers: { ...tenant.headers, "Content-Type": "image/png" },
      body: Buffer.from(png, "base64"),
    });
    expect((await turn({ input: "look" })).body.status).toBe("completed");
    expect(sent()[1]).toContain(`"data":"${png}"`);
    const [row] = await platform.database.sql("select media from messages where session_id = $1 and seq = 3", [
      session,
    ]);
    expect(row?.media).toHaveLength(1);
  });
});
