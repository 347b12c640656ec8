import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../../../src/local/simulator/server.ts";
import { type Check, runChecks } from "../../../../src/turns/doctor/check.ts";
import { chatCheck, messagesApiCheck } from "../../../../src/turns/doctor/provider.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";

const KEY = "sk-ant-right";
const CHAT_MODEL = "openai/qwen3-8b";

let simulator: Simulator;
let server: Receiver;
/** What the other server answers. */
let answer: { status: number; body: string };
beforeAll(async () => {
  simulator = await startSimulator({ allowedKeys: [KEY] });
  server = await startReceiver((_, __, response) => {
    response.writeHead(answer.status, { "content-type": "application/json" }).end(answer.body);
  });
});
afterAll(async () => {
  server.close();
  await simulator.close();
});

/** An address where nobody listens any more. */
const nobody = async (): Promise<string> => {
  const gone = await startReceiver(() => undefined);
  gone.close();
  return gone.url;
};

const found = async (check: Check, timeoutMs = 10_000) => {
  const [result] = await runChecks([check], { now: () => performance.now(), timeoutMs });
  return `${result?.status}: ${result?.detail}`;
};
const messages = (settings: Partial<Parameters<typeof messagesApiCheck>[0]> = {}) =>
  messagesApiCheck({ baseUrl: simulator.url, apiKey: KEY, models: ["claude-sonnet-5-5"], ...settings }, fetch);
const chat = (settings: Partial<Parameters<typeof chatCheck>[0]> = {}) =>
  chatCheck({ baseUrl: `${simulator.url}/v1`, apiKey: KEY, models: [], ...settings }, fetch);

describe("the Messages API", () => {
  it("takes the key and knows the models, without a call that costs", async () => {
    const before = simulator.requests.length;
    expect(await found(messages({ models: ["claude-sonnet-5-5", "claude-haiku-5-5"] }))).toBe(
      `ok: the Messages API at ${simulator.url} takes the key and knows "claude-sonnet-5-5", "claude-haiku-5-5"`,
    );
    expect(await found(messages({ models: [] }))).toBe(`ok: the Messages API at ${simulator.url} takes the key`);
    const paths = simulator.requests.slice(before);
    expect(paths.map(({ method }) => method)).toEqual(["GET", "GET", "GET"]);
  });

  it("refuses a wrong key, which is not shown", async () => {
    expect(await found(messages({ apiKey: "sk-ant-wrong" }))).toBe(
      `failed: the Messages API at ${simulator.url} refused the key (401): set ANTHROPIC_API_KEY to one that is valid`,
    );
  });

  it("knows no such model", async () => {
    expect(await found(messages({ models: ["claude-sonnet-5-5", "no-such-model"] }))).toBe(
      `failed: the Messages API at ${simulator.url} knows no model "no-such-model": see HANGO_DEFAULT_MODEL and HANGO_SUMMARIZER_MODEL`,
    );
  });

  it.each([
    [403, "{}", "does not allow this key to ask (403): see what ANTHROPIC_API_KEY may do"],
    [429, "{}", "its rate limit is reached (429): turns would fail now, try again later"],
    [529, "{}", "is failing (529): turns would fail now, try again later"],
    [302, "{}", "answers 302 at ANTHROPIC_BASE_URL: is that the right server?"],
    [200, "<html>", "answers with something that is no JSON: see ANTHROPIC_BASE_URL"],
  ])("that answers %i fails", async (status, body, words) => {
    answer = { status, body };
    expect(await found(messages({ baseUrl: server.url }))).toBe(`failed: the Messages API at ${server.url} ${words}`);
  });

  it("that describes no models cannot be asked for free, and is not called broken", async () => {
    answer = { status: 404, body: "not here" };
    expect(await found(messages({ baseUrl: server.url }))).toBe(
      `skipped: the Messages API at ${server.url} answers, but describes no models (404): neither key nor model can be checked for free`,
    );
  });

  it("that is not there is named by its address, without what stands before the host", async () => {
    const gone = await nobody();
    expect(await found(messages({ baseUrl: gone }))).toBe(
      `failed: the Messages API at ${gone} cannot be reached (ECONNREFUSED): see ANTHROPIC_BASE_URL`,
    );
    const words = await found(messages({ baseUrl: "http://me:hunter2@127.0.0.1:1" }));
    expect(words).toBe(
      "failed: ANTHROPIC_BASE_URL holds a user or password, which requests refuse: put the key into its own variable",
    );
  });

  it("that never answers fails when its time is over", async () => {
    const silent = await startReceiver(() => undefined);
    expect(await found(messages({ baseUrl: silent.url }), 50)).toBe("failed: no answer within 0.05 s");
    silent.close();
  });
});

describe("chat completions", () => {
  it("take the key and know the model", async () => {
    simulator.setModels({ "qwen3-8b": { server: "vllm", maxInputTokens: 32_768 } });
    answer = { status: 200, body: JSON.stringify({ data: [{ id: "qwen3-8b" }, { id: "other" }] }) };
    expect(await found(chat({ baseUrl: `${server.url}/v1`, models: [CHAT_MODEL] }))).toBe(
      `ok: chat completions at ${server.url}/v1 take the key and know "openai/qwen3-8b"`,
    );
    expect(await found(chat())).toBe(`ok: chat completions at ${simulator.url}/v1 take the key`);
    expect(await found(chat({ baseUrl: server.url, apiKey: undefined }))).toBe(
      `ok: chat completions at ${server.url} answer without a key`,
    );
  });

  it("of a server with one model answer to any name", async () => {
    answer = { status: 200, body: JSON.stringify({ data: [{ id: "/models/qwen.gguf" }] }) };
    expect(await found(chat({ baseUrl: server.url, models: [CHAT_MODEL] }))).toMatch(/^ok: /);
  });

  it("know no such model", async () => {
    answer = { status: 200, body: JSON.stringify({ data: [{ id: "a" }, { id: "b" }] }) };
    expect(await found(chat({ baseUrl: server.url, models: [CHAT_MODEL] }))).toBe(
      `failed: chat completions at ${server.url} know no model "openai/qwen3-8b": see HANGO_DEFAULT_MODEL and HANGO_SUMMARIZER_MODEL`,
    );
  });

  it("refuse a wrong key", async () => {
    expect(await found(chat({ apiKey: "wrong" }))).toBe(
      `failed: chat completions at ${simulator.url}/v1: refused the key (401): set OPENAI_API_KEY to one that is valid`,
    );
  });

  it.each([
    [404, "nothing"],
    [200, "{}"],
  ])("that list no models (%i) cannot be asked for free", async (status, body) => {
    answer = { status, body };
    expect(await found(chat({ baseUrl: server.url }))).toMatch(/^skipped: .* list no models/);
  });

  it("that are not there are named by their address", async () => {
    const gone = await nobody();
    expect(await found(chat({ baseUrl: `${gone}/v1` }))).toBe(
      `failed: chat completions at ${gone}/v1: cannot be reached (ECONNREFUSED): see HANGO_OPENAI_BASE_URL`,
    );
    expect(await found(chat({ baseUrl: "http://me@127.0.0.1:1/v1" }))).toMatch(/^failed: HANGO_OPENAI_BASE_URL holds/);
  });
});
