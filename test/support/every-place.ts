/** One tenant's use of everything, with planted words and secrets in every place where content can be. */
import { createHmac } from "node:crypto";
import { expect } from "vitest";
import { assistant, compactingSession, prose, talk, user } from "./compaction.ts";
import type { Plants } from "./planted-content.ts";
import { openTurn, readEvents, type TestPlatform } from "./platform.ts";
import { startReceiver } from "./receiver.ts";

const called = (id: string, name: string, input: object) => ({ type: "tool_use" as const, id, name, input });

/** @throws AssertionError where a place did not take what was planted there, since nothing would be proved of it */
export const everyPlace = async (platform: TestPlatform, { say, word }: Plants): Promise<void> => {
  const { simulator, url } = platform;
  simulator.reset();
  let failing = false;
  // Answers tools, is told of runs, and gets the replies of triggers.
  const outside = await startReceiver((_request, _body, response) => {
    if (failing) response.writeHead(500).end(say("answer of a tool that fails"));
    else response.end(JSON.stringify({ content: say("answer of an HTTP tool") }));
  });
  try {
    const session = await compactingSession(platform, {
      windowTokens: 24_000,
      context: { micro_compaction: {} },
      fields: {
        key: `ticket-${word()}`,
        title: say("title"),
        user: word(),
        system: say("system prompt"),
        metadata: { [word()]: say("metadata").slice(0, 500) },
        tools: [
          {
            type: "http",
            name: "look_up",
            description: say("tool's description"),
            input_schema: { type: "object", description: say("tool's schema") },
            url: `${outside.url}/${word()}?token=${word()}`,
            headers: { "X-Tool": say("tool's header").replaceAll("\n", " ") },
          },
        ],
        subagents: [{ name: "reader", description: say("subagent"), system: say("subagent's prompt") }],
        skills: [
          {
            name: "refunds",
            description: say("skill").slice(0, 400),
            body: say("skill's body"),
            files: { "a.md": say("skill's file") },
          },
        ],
      },
    });
    const { call, id, tenant } = session;
    const file = `/notes/${word()}.md`;
    const put = async (path: string): Promise<void> => {
      const { status } = await call("PUT", `/v1/sessions/${id}/files${path}`, say("file"), {
        "Content-Type": `text/plain; note=${word()}`,
      });
      expect([path, status < 300]).toEqual([path, true]);
    };
    await put(file);
    await put("/memories/AGENTS.md");

    await session.load([...talk(6, 120), user(say("imported message")), assistant(say("imported answer"))]);
    await session.scripted(
      say("message"),
      [
        { type: "thinking", thinking: say("thinking") },
        { type: "text", text: say("words beside a call") },
        called("toolu_1", "write_file", { file_path: `/${word()}.md`, content: say("argument") }),
        called("toolu_2", "read_file", { file_path: file }),
        called("toolu_3", "read_file", { file_path: `/${word()}/missing.md` }),
        called("toolu_4", "grep", { pattern: word(), path: "/" }),
        called("toolu_5", "write_todos", { todos: [{ content: say("todo"), status: "pending" }] }),
        called("toolu_6", "look_up", { query: say("argument of an HTTP tool") }),
        called("toolu_7", "load_skill", { name: "refunds" }),
        called("toolu_8", "load_skill", { name: word() }),
        called("toolu_9", "glob", { pattern: `**/${word()}*` }),
      ],
      say("answer"),
    );
    failing = true;
    await session.scripted(say("message"), [called("toolu_a", "look_up", { query: say("argument") })], say("answer"));
    failing = false;
    await session.scripted(
      say("message"),
      [
        called("toolu_b", "task", {
          description: say("task").slice(0, 200),
          prompt: say("task's prompt"),
          subagent_type: "reader",
        }),
      ],
      say("answer of the subagent"),
      say("answer"),
    );
    const streamed = await openTurn(
      url,
      tenant,
      id,
      { input: say("streamed message") },
      {
        "Idempotency-Key": word(),
        "User-Agent": say("agent of a caller").replaceAll("\n", " "),
        "X-Caller": say("header").replaceAll("\n", " "),
        "Accept-Encoding": word(),
        baggage: `note=${word()}`,
      },
    );
    expect((await readEvents(streamed)).at(-1)?.event).toBe("session.idle");

    // Providers whose errors quote the prompt.
    const message = say("error of the provider");
    const faults = [
      { kind: "status" as const, status: 400, message },
      { kind: "status" as const, status: 500, message },
      { kind: "status" as const, status: 401, message },
      { kind: "error_event" as const, message },
      { kind: "cut" as const },
      { kind: "refusal" as const, explanation: say("refusal") },
    ];
    for (const fault of faults) {
      simulator.enqueue({ match: { purpose: "turn" }, fault });
      await session.turn(say("message"));
    }

    // Summaries, asked for, at the trigger, and one that fails with the prompt in its words.
    simulator.enqueue({
      match: { purpose: "summarize" },
      fault: { kind: "status", status: 400, message: say("error") },
    });
    await call("POST", `/v1/sessions/${id}/compact`, { focus: say("focus") });
    await platform.database.sql("update session_heads set cooldown_until = null where session_id = $1", [id]);
    simulator.enqueue({ match: { purpose: "summarize" }, reply: { content: say("summary") }, times: "always" });
    const long = await compactingSession(platform, { windowTokens: 24_000 });
    await long.load([user(say("message")), assistant(say("answer")), ...talk(34, 230)]);
    await long.scripted(say("message"), say("answer"));
    expect(await long.generations()).toHaveLength(1);
    await long.call("POST", `/v1/sessions/${long.id}/compact`, { focus: say("focus") });

    // Addresses and bodies that are wrong.
    const wrong: readonly (readonly [string, string, unknown?])[] = [
      ["GET", `/v1/sessions/key:ticket-${word()}`],
      ["GET", `/v1/${word()}/${word()}?q=${word()}`],
      ["GET", `/${word()}`],
      ["POST", `/v1/sessions/${id}/turns?q=${word()}`, { [word()]: say("field that nobody knows") }],
      ["POST", `/v1/sessions/${id}/turns`, `{"input": ${say("JSON that is broken")}`],
      ["POST", "/v1/sessions", { model: `no model ${word()}` }],
      ["GET", `/v1/sessions/${id}/files/${word()}/none.md`],
      ["GET", `/v1/sessions/${id}/messages?page=${word()}`],
      ["PATCH", `/v1/sessions/${id}`, { metadata: { [word()]: 7 } }],
      ["POST", `/v1/runs/${word()}/cancel`],
      ["POST", "/v1/tenants", { name: say("tenant's name") }],
    ];
    for (const [method, path, body] of wrong)
      expect([path, (await call(method, path, body)).status >= 400]).toEqual([path, true]);

    // What is done with a session.
    const fork = await call("POST", `/v1/sessions/${id}/fork`, { key: word(), title: say("title of a fork") });
    expect(fork.status).toBe(201);
    await call("GET", `/v1/sessions/${id}/export`);
    await call("GET", `/v1/sessions/${id}/files${file}`);
    await call("PATCH", `/v1/sessions/${id}`, { title: say("new title"), system: say("new system prompt") });
    const queued = await call("POST", `/v1/sessions/${fork.body.id}/turns`, {
      input: say("message for the background"),
      background: true,
      callback_url: `${outside.url}/${word()}?key=${word()}`,
    });
    await readEvents(await fetch(`${url}/v1/runs/${queued.body.id}/events`, { headers: tenant.headers }));
    await call("POST", "/v1/webhook_endpoints", { url: `${outside.url}/${word()}` });

    // Webhooks: one that is believed, one that is not.
    const secret = word();
    const made = await call("POST", "/v1/triggers", {
      type: "webhook",
      name: say("name of a trigger").slice(0, 100),
      verification: { scheme: "github" },
      secret,
      session_key: "hook:{{payload.title}}",
      session: { system: say("system prompt of a trigger") },
      prompt: `${say("template")} {{payload.title}} {{payload.body}}`,
      reply: {
        url: `${outside.url}/${word()}`,
        headers: { Authorization: word() },
        body: { text: "{{run.output_text}}" },
      },
    });
    expect(made.status).toBe(201);
    const payload = JSON.stringify({ title: word(), body: say("payload") });
    for (const signed of [secret, "another"]) {
      const answer = await fetch(made.body.url, {
        method: "POST",
        body: payload,
        headers: {
          "Content-Type": "application/json",
          Connection: "close",
          "X-GitHub-Event": word(),
          "X-GitHub-Delivery": word(),
          "X-Hub-Signature-256": `sha256=${createHmac("sha256", signed).update(payload).digest("hex")}`,
        },
      });
      expect(answer.status).toBe(signed === secret ? 202 : 401);
    }
    await platform.host.tick();
    await call("DELETE", `/v1/sessions/${fork.body.id}`);
    // Room for what the last steps sent to the queue: a turn of a session of its own.
    await session.scripted(prose(10), say("answer"));
  } finally {
    outside.close();
  }
};
