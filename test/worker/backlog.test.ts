/** A session whose import is far larger than what a turn loads (V7): the first turn is answered, and the queue compacts the rest. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";

const MODEL = "claude-sonnet-5-5";
const WINDOW = 20_000;

let platform: TestPlatform;
let call: Call;

beforeAll(async () => {
  platform = await startTestPlatform({
    variables: { HANGO_MODEL_PROFILES: JSON.stringify({ [MODEL]: { max_input_tokens: WINDOW } }) },
  });
  platform.simulator.setModels({ [MODEL]: { maxInputTokens: WINDOW } });
  call = callerOf(platform.url, await makeTenant(platform.database));
}, 120_000);
afterAll(() => platform.close());

const words = (n: number) => Array.from({ length: 60 }, (_, at) => `word${n}x${at}`).join(" ");

it("rows that a turn does not load are hidden, named, compacted in the background, and readable in the history file (V3, V7)", async () => {
  const session = (await call("POST", "/v1/sessions", { model: MODEL })).body.id;
  const messages = Array.from({ length: 400 }, (_, n) => [
    { role: "user", content: `Question ${n} about /src/file${n}.ts: ${words(n)}` },
    { role: "assistant", content: `Answer ${n}.` },
  ]).flat();
  expect((await call("POST", `/v1/sessions/${session}/import`, { messages })).body.imported).toBe(800);
  platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Here." } });
  const { body } = await call("POST", `/v1/sessions/${session}/turns`, { input: "Are you there?" });
  expect(body).toMatchObject({ status: "completed", output_text: "Here." });
  // The turn's own compaction covers the newest rows; the background takes the others up, from the first.
  const worked = async () =>
    (
      await platform.database.sql(
        `select v.hidden::text as hidden, lower(c.covered)::int as first, upper(c.covered) > 500 as most
        from session_heads h join view_revisions v on v.session_id = h.session_id and v.revision = h.revision
          left join compactions c on c.session_id = v.session_id and c.generation = v.generation where h.session_id = $1`,
        [session],
      )
    )[0];
  await vi.waitFor(async () => expect(await worked()).toEqual({ hidden: "{}", first: 1, most: true }), {
    timeout: 20_000,
    interval: 100,
  });
  await vi.waitFor(async () => expect((await call("GET", `/v1/sessions/${session}`)).body.status).toBe("idle"), {
    timeout: 10_000,
  });

  const history = await call("GET", `/v1/sessions/${session}/files/conversation_history/${session}.md`);
  expect(history.body).toContain("Question 3 about /src/file3.ts");
  platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: "Still here." } });
  expect((await call("POST", `/v1/sessions/${session}/turns`, { input: "And now?" })).body).toMatchObject({
    status: "completed",
  });
  const [view] = await platform.database.sql(
    "select v.hidden::text as hidden, c.covered::text as covered from session_heads h join view_revisions v on v.session_id = h.session_id and v.revision = h.revision left join compactions c on c.session_id = v.session_id and c.generation = v.generation where h.session_id = $1",
    [session],
  );
  expect(view?.hidden).toBe("{}");
  expect(String(view?.covered)).toMatch(/^\{\[1,/);
}, 60_000);
