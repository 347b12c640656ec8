/** The pages below `/_local` beside the real Worker: they are reached, and its own requests travel as they do without them. */
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type LocalCollector, startLocalCollector } from "../../src/local/collector/collector.ts";
import {
  type Call,
  callerOf,
  makeTenant,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
} from "../support/platform.ts";

const LONGEST_WAIT_MS = 20_000;

let collector: LocalCollector;
let platform: TestPlatform;
let tenant: Tenant;
let call: Call;

beforeAll(async () => {
  collector = await startLocalCollector("UTC");
  const { answerPage, endpoint } = collector;
  platform = await startTestPlatform({
    answerPage,
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, HANGO_DETACH_GRACE_MS: "0", HANGO_SSE_HEARTBEAT_MS: "200" },
  });
  tenant = await makeTenant(platform.database);
  call = callerOf(platform.url, tenant);
}, 120_000);
afterAll(async () => {
  await platform.close();
  await collector.close();
});

const newSession = async (): Promise<string> => (await call("POST", "/v1/sessions", {})).body.id;

const streamed = (session: string, signal: AbortSignal | null = null): Promise<Response> =>
  fetch(`${platform.url}/v1/sessions/${session}/turns`, {
    method: "POST",
    headers: tenant.headers,
    body: JSON.stringify({ input: "go", stream: true }),
    signal,
  });

it("a stream still arrives piece by piece", async () => {
  platform.simulator.enqueue({ hold: "middle", reply: { content: "one two three four" } });
  const response = await streamed(await newSession());
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("one")) text += (await reader?.read())?.value ?? "";
  expect(text).not.toContain("session.idle");
  platform.simulator.release("middle");
  for (let piece = await reader?.read(); piece?.done === false; piece = await reader?.read()) text += piece.value;
  expect(text).toContain("event: session.idle");
});

it("a client that leaves is still noticed: its run goes on without waiting for the call that was under way", async () => {
  platform.simulator.enqueue({ hold: { name: "left", at: "start" }, reply: { content: "lost" } });
  const client = new AbortController();
  const response = await streamed(await newSession(), client.signal);
  await platform.simulator.reached("left");
  platform.simulator.enqueue({ reply: { content: "said again" } });
  client.abort();
  await vi.waitFor(
    async () => {
      const { body } = await call("GET", `/v1/runs/${response.headers.get("hango-run-id")}`);
      expect(body).toMatchObject({ status: "completed", output_text: "said again" });
    },
    { timeout: LONGEST_WAIT_MS },
  );
});

it("a turn is on the pages at hango's own address once its spans have come, and other paths stay the Worker's", async () => {
  const session = await newSession();
  platform.simulator.enqueue({ reply: { content: "hello" } });
  expect((await call("POST", `/v1/sessions/${session}/turns`, { input: "go" })).status).toBe(200);
  await vi.waitFor(async () => expect(await (await fetch(`${platform.url}/_local/traces`)).text()).toContain(session), {
    timeout: LONGEST_WAIT_MS,
  });
  for (const path of ["/_local", "/_locals/traces", "/v1/_local/traces"]) {
    const response = await fetch(`${platform.url}${path}`);
    expect([path, response.status]).toEqual([path, 404]);
    const message = "There is no such path; /docs lists those that exist.";
    expect(await response.json()).toMatchObject({ error: { message } });
  }
});
