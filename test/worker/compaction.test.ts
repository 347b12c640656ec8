/** Compaction through the built Worker: what the model is sent, what is stored, and what the log still says. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  type Call,
  callerOf,
  makeTenant,
  openTurn,
  readEvents,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
} from "../support/platform.ts";

const MODEL = "claude-sonnet-5-5";
const WINDOW = 20_000;

let platform: TestPlatform;
let tenant: Tenant;
let call: Call;
let session: string;

beforeAll(async () => {
  platform = await startTestPlatform({
    variables: { HANGO_MODEL_PROFILES: JSON.stringify({ [MODEL]: { max_input_tokens: WINDOW } }) },
  });
}, 120_000);
afterAll(() => platform.close());
beforeEach(async () => {
  platform.simulator.reset();
  platform.simulator.setModels({ [MODEL]: { maxInputTokens: WINDOW } });
  tenant = await makeTenant(platform.database);
  call = callerOf(platform.url, tenant);
  session = (await call("POST", "/v1/sessions", { model: MODEL })).body.id;
});

const turn = (input: string) => call("POST", `/v1/sessions/${session}/turns`, { input });
const prose = (words: number, seed: string) => Array.from({ length: words }, (_, at) => `${seed}${at}`).join(" ");
const sent = () =>
  platform.simulator.requests
    .filter(({ path, purpose }) => path === "/v1/messages" && purpose === "turn")
    .map(({ bodyText }) => JSON.parse(bodyText));
const summaries = () => platform.simulator.requests.filter(({ purpose }) => purpose === "summarize");
const checksum = async () =>
  (
    await platform.database.sql(
      "select count(*)::int as n, md5(string_agg(content::text, '' order by seq)) as sum from messages where session_id = $1",
      [session],
    )
  )[0];

describe("a session that outgrows its window", () => {
  it("is compacted before the call; the log is untouched and complete (M6)", async () => {
    for (let n = 0; n < 8; n++) {
      platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content: `Answer ${n}. ${prose(150, "a")}` } });
      const { status, body } = await turn(`Question ${n}: ${prose(500, `w${n}x`)}`);
      expect([status, body.status, body.error?.message]).toEqual([200, "completed", undefined]);
    }
    expect(summaries().length).toBeGreaterThan(0);
    expect((await call("GET", `/v1/sessions/${session}/messages?limit=100`)).body.data).toHaveLength(16);
    const last = sent().at(-1);
    expect(JSON.stringify(last.messages[0])).toContain("Handoff");
    expect(JSON.stringify(last.messages)).toContain("Question 7");
  });
});
