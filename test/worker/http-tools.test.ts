/** Tools that are HTTP endpoints of the caller. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Call, callerOf, makeTenant, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

let platform: TestPlatform;
let call: Call;
let session: string;
let server: Receiver;
let url: string;
let received: { headers: IncomingMessage["headers"]; body: string }[];
let answer: (response: ServerResponse) => void;

const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
};

beforeAll(async () => {
  platform = await startTestPlatform({ variables: { HANGO_TOOL_TIMEOUT_MS: "500" } });
  server = await startReceiver((request, body, response) => {
    received.push({ headers: request.headers, body });
    answer(response);
  });
  url = `${server.url}/tool`;
}, 120_000);
afterAll(async () => {
  await platform.close();
  server.close();
});
beforeEach(async () => {
  received = [];
  answer = (response) => json(response, 200, { content: "fine" });
  platform.simulator.reset();
  call = callerOf(platform.url, await makeTenant(platform.database));
  session = await makeSession(url);
});

const makeSession = async (address: string, more: object = {}): Promise<string> => {
  const tool = {
    type: "http",
    name: "weather",
    description: "The weather of a city.",
    input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    url: address,
    headers: { "X-Secret": "s3cret-value" },
    ...more,
  };
  const made = await call("POST", "/v1/sessions", { tools: [tool] });
  expect(made.status).toBe(201);
  return made.body.id;
};

/** The result that the model got for the one call it made. */
const resultOf = async (input: object | string = { city: "Bern" }) => {
  platform.simulator.enqueue({
    reply: {
      content: [
        {
          type: "tool_use",
          id: "toolu_w",
          name: "weather",
          ...(typeof input === "string" ? { input_json: input } : { input }),
        },
      ],
    },
  });
  platform.simulator.enqueue({ reply: { content: "Done." } });
  const { body } = await call("POST", `/v1/sessions/${session}/turns`, { input: "weather?" });
  expect(body).toMatchObject({ status: "completed", output_text: "Done." });
  return (await call("GET", `/v1/sessions/${session}/messages?order=asc`)).body.data[2].content[0];
};

describe("an HTTP tool", () => {
  it("is called with its input as the model wrote it, its headers, and a key that makes a repeat harmless", async () => {
    expect(await resultOf('{"city": "Bern", "2": 1.0, "1": 12345678901234567890}')).toEqual({
      type: "tool_result",
      tool_use_id: "toolu_w",
      content: "fine",
    });
    expect(received).toHaveLength(1);
    expect(received[0]?.body).toContain('"input":{"city": "Bern", "2": 1.0, "1": 12345678901234567890}');
    expect(JSON.parse(received[0]?.body ?? "")).toMatchObject({
      tool_use_id: "toolu_w",
      name: "weather",
      session_id: session,
    });
    expect(received[0]?.headers).toMatchObject({
      "x-secret": "s3cret-value",
      "idempotency-key": "toolu_w",
      "content-type": "application/json",
    });
  });

  it("does not show the secrets in its headers to whoever reads the session", async () => {
    expect(JSON.stringify((await call("GET", `/v1/sessions/${session}`)).body)).not.toContain("s3cret-value");
    await resultOf();
    expect(JSON.stringify(platform.simulator.requests.map(({ bodyText }) => bodyText))).not.toContain("s3cret-value");
    expect(platform.logs.join("\n")).not.toContain("s3cret-value");
  });

  it.each([
    ["plain text", (response: ServerResponse) => response.end("sunny"), { content: "sunny" }],
    ["nothing", (response: ServerResponse) => response.end(), { content: "(no output)" }],
    [
      "JSON of its own",
      (response: ServerResponse) => json(response, 200, { degrees: 20 }),
      { content: '{"degrees":20}' },
    ],
    [
      "text blocks",
      (response: ServerResponse) => json(response, 200, { content: [{ type: "text", text: "rain" }] }),
      { content: [{ type: "text", text: "rain" }] },
    ],
    [
      "an error of its own",
      (response: ServerResponse) => json(response, 200, { content: "no such city", is_error: true }),
      { content: "no such city", is_error: true },
    ],
    [
      "a status that says no",
      (response: ServerResponse) => json(response, 500, { why: "broken" }),
      { is_error: true, content: expect.stringContaining("status 500") },
    ],
    [
      "a redirect",
      (response: ServerResponse) => response.writeHead(302, { Location: "http://127.0.0.1:1/" }).end(),
      { is_error: true, content: expect.stringContaining("redirect") },
    ],
    [
      "a cut connection",
      (response: ServerResponse) => response.destroy(),
      { is_error: true, content: expect.stringContaining("could not be reached") },
    ],
    [
      "too much",
      (response: ServerResponse) => response.end("x".repeat(1_100_000)),
      { is_error: true, content: expect.stringContaining("larger than") },
    ],
    [
      "nothing in time",
      () => undefined,
      { is_error: true, content: expect.stringContaining("did not answer within 0.5 s") },
    ],
  ])("that answers with %s has a result that the model can act on", async (_name, reply, result) => {
    answer = (response) => void reply(response);
    expect(await resultOf()).toMatchObject(result);
  });

  it("whose result is large leaves a preview in the log and the whole in a file (ladder step 1)", async () => {
    const whole = Array.from({ length: 30_000 }, (_, line) => `line ${line} of the weather report`).join("\n");
    answer = (response) => void response.end(whole);
    const result = await resultOf();
    expect(JSON.stringify(result).length).toBeLessThan(30_000);
    expect(result.content).toContain("/large_tool_results/toolu_w");
    expect(result.content).toContain("line 0 of");
    expect(result.content).toContain("line 29999 of");
    expect((await call("GET", `/v1/sessions/${session}/files/large_tool_results/toolu_w`)).body).toBe(whole);
  });
});
