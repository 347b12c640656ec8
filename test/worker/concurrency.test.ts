/** Many requests at once, over HTTP, on a real PostgreSQL. */
import { describe, expect, it } from "vitest";
import { call, platform, session, tenant, turn, useOwnSession } from "../support/own-session.ts";
import { callerOf, makeTenant, openTurn, readEvents } from "../support/platform.ts";

useOwnSession();

const count = async (table: "runs" | "messages") =>
  (await platform.database.sql(`select count(*)::int as n from ${table} where session_id = $1`, [session]))[0]?.n;

describe("at once", () => {
  it("50 equal requests with one idempotency key make one run, and all get its result", async () => {
    platform.simulator.enqueue({ reply: { content: "Once." } });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => turn({ input: "go" }, { "Idempotency-Key": "the-same" })),
    );
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.id} ${body.output_text}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ status: 200, body: { output_text: "Once." } });
    expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true")).toHaveLength(49);
    expect([await count("runs"), await count("messages")]).toEqual([1, 2]);
    expect(platform.simulator.requests.filter(({ path }) => path === "/v1/messages")).toHaveLength(1);
  });

  it("20 racers for a session make one run; 19 are told that it is busy, by whom, and when to come back", async () => {
    platform.simulator.enqueue({ hold: "gate", reply: { content: "Mine." } });
    const racing = Array.from({ length: 20 }, async (_, n) => {
      const answer = await turn({ input: `racer ${n}` });
      if (answer.status === 409 && ++refused === 19) platform.simulator.release("gate");
      return answer;
    });
    let refused = 0;
    const answers = await Promise.all(racing);
    const winner = answers.find(({ status }) => status === 200);
    expect(winner?.body.output_text).toBe("Mine.");
    const busy = answers.filter(({ status }) => status === 409);
    expect(busy).toHaveLength(19);
    for (const { headers, body } of busy) {
      expect(body.error).toMatchObject({ code: "session_busy", run_id: winner?.body.id, retryable: true });
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    }
    expect([await count("runs"), await count("messages")]).toEqual([1, 2]);
  });

  it("the same key with another body is a mismatch; another tenant's same key is its own", async () => {
    platform.simulator.enqueue({ times: 2, reply: { content: "Yes." } });
    expect((await turn({ input: "a" }, { "Idempotency-Key": "k" })).status).toBe(200);
    expect((await turn({ input: "b" }, { "Idempotency-Key": "k" })).body.error).toMatchObject({
      code: "idempotency_mismatch",
    });
    const other = await makeTenant(platform.database);
    const theirs = callerOf(platform.url, other);
    const theirSession = (await theirs("POST", "/v1/sessions", {})).body.id;
    expect(
      (await theirs("POST", `/v1/sessions/${theirSession}/turns`, { input: "a" }, { "Idempotency-Key": "k" })).status,
    ).toBe(200);
  });

  it("a streamed replay attaches to the run, also while it is under way", async () => {
    platform.simulator.enqueue({ hold: "gate", reply: { content: "Streamed." } });
    const first = openTurn(platform.url, tenant, session, { input: "go" }, { "Idempotency-Key": "stream" });
    await platform.simulator.reached("gate");
    const again = await openTurn(platform.url, tenant, session, { input: "go" }, { "Idempotency-Key": "stream" });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    platform.simulator.release("gate");
    const [streamed, replayed] = await Promise.all([readEvents(await first), readEvents(again)]);
    const durable = (events: typeof streamed) => events.filter((event) => event.id !== null);
    expect(durable(replayed)).toEqual(durable(streamed));
    expect(await count("runs")).toBe(1);
  });

  it("turns of 20 sessions do not mix", async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        const id = (await call("POST", "/v1/sessions", {})).body.id;
        platform.simulator.enqueue({ match: { contains: `secret-${n}-` }, reply: { content: `I heard secret-${n}-` } });
        return (await call("POST", `/v1/sessions/${id}/turns`, { input: `secret-${n}-` })).body.output_text;
      }),
    );
    expect(answers).toEqual(Array.from({ length: 20 }, (_, n) => `I heard secret-${n}-`));
  });
});
