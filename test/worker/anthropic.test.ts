/** The Anthropic adapter in workerd, over HTTP: the SDK, streams and aborts behave otherwise there than in Node. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { buildWorker } from "../../src/local/build.ts";
import {
  end,
  event,
  failure,
  silence,
  sse,
  start,
  startWire,
  text,
  thinking,
  toolUse,
  type Wire,
} from "../unit/models/wire.ts";

const SRC = join(import.meta.dirname, "../../src");

const worker = `
import { anthropicProvider } from "${SRC}/models/anthropic.ts";
import { ModelError } from "${SRC}/models/errors.ts";

let unhandled = 0;
addEventListener("unhandledrejection", () => { unhandled++; });

const timers = {
  nowMs: () => Date.now(),
  after: (delayMs, run) => { const id = setTimeout(run, delayMs); return () => clearTimeout(id); },
};

export default {
  async fetch(request, env) {
    const { url, content, abort, idleTimeoutMs, deadlineInMs } = await request.json();
    const provider = anthropicProvider({
      apiKey: "sk-ant-test-key", baseURL: url, fetch, timers, idleTimeoutMs,
      resolveMedia: async (text) => text,
    });
    const controller = new AbortController();
    const call = {
      signal: controller.signal,
      deadlineMs: Date.now() + (deadlineInMs ?? 20000),
      onDelta: (delta) => { if (abort && delta.kind === "text") controller.abort(); },
    };
    const result = await provider.generate(
      { model: "claude-sonnet-5-5", maxTokens: 100, system: [], tools: [], messages: [{ role: "user", content, media: [] }] },
      call,
    ).catch((error) => {
      if (!(error instanceof ModelError)) throw error;
      return { failure: error.failure, message: error.message };
    });
    await new Promise((resolve) => setTimeout(resolve, 0));
    return Response.json({ result, unhandled });
  },
};
`;

let root: string;
let instance: Miniflare;
let wire: Wire;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hango-anthropic-"));
  await mkdir(join(root, "src"));
  await writeFile(join(root, "src/worker.ts"), worker);
  await writeFile(
    join(root, "wrangler.toml"),
    'name = "probe"\nmain = "src/worker.ts"\ncompatibility_date = "2026-10-01"\ncompatibility_flags = ["nodejs_compat"]\n',
  );
  const { path } = await buildWorker({ root });
  instance = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      modulesRoot: root,
      scriptPath: path,
      compatibilityDate: "2026-10-01",
      compatibilityFlags: ["nodejs_compat"],
      // What a deployment's secrets would put into process.env.
      bindings: { ANTHROPIC_API_KEY: "sk-env", ANTHROPIC_AUTH_TOKEN: "env", ANTHROPIC_BASE_URL: "http://127.0.0.1:1" },
    }),
  );
}, 120_000);

afterAll(async () => {
  await instance?.dispose();
  await rm(root, { recursive: true, force: true });
});

beforeEach(async () => {
  wire = await startWire();
});
afterEach(() => wire.close());

const call = async (settings: object = {}): Promise<unknown> => {
  const response = await instance.dispatchFetch("http://probe/", {
    method: "POST",
    body: JSON.stringify({ url: wire.url, content: '[{"type":"text","text":"Hi"}]', ...settings }),
  });
  return response.json();
};

const SOON = { "retry-after-ms": "1" };

describe("in workerd", () => {
  it("an answer and a request keep their bytes, and nothing is taken from the environment (V9)", async () => {
    const input = '{"10": 1, "2": 1.0, "big": 9007199254740993, "nul": "\\u0000", "emoji": "🌍"}';
    wire.play(failure(529, "overloaded_error", "Overloaded", SOON));
    wire.play(
      sse(
        start(),
        thinking(0, "hm", "c2ln+/=="),
        toolUse(1, "toolu_1", "x", ...(input.match(/.{1,5}/gsu) ?? [])),
        end("tool_use"),
      ),
    );
    const content = '[{"type":"text","text":"\\u00e9 1.0 🌍", "10":1.0,"2":9007199254740993}]';
    expect(await call({ content })).toEqual({
      result: {
        id: "msg_1",
        model: "claude-sonnet-5-5",
        content: `[{"type":"thinking","thinking":"hm","signature":"c2ln+/=="},{"type":"tool_use","id":"toolu_1","name":"x","input":${input}}]`,
        text: "",
        calls: [{ id: "toolu_1", name: "x", inputText: input }],
        stopReason: "tool_use",
        usage: { inputTokens: 10, outputTokens: 7, cacheReadTokens: 0, cacheWriteTokens: 0 },
      },
      unhandled: 0,
    });
    expect(wire.requests).toHaveLength(2);
    expect(wire.requests[1]?.body).toContain(`{"role":"user","content":${content}}`);
    expect(wire.requests[1]?.headers.authorization).toBe("Bearer sk-ant-test-key");
  });

  it("an abort in mid-answer ends the call and the connection", async () => {
    wire.play(silence(start(), text(0, "go")));
    expect(await call({ abort: true })).toMatchObject({ result: { failure: { kind: "aborted" } }, unhandled: 0 });
    await wire.left;
  });

  it("silence ends the call and the connection", async () => {
    wire.play(silence(start(), text(0, "go")));
    expect(await call({ idleTimeoutMs: 100 })).toMatchObject({
      result: { failure: { kind: "timeout", what: "idle" } },
      unhandled: 0,
    });
    await wire.left;
  });

  it("the deadline ends the call during the wait before a retry", async () => {
    wire.play(failure(529, "overloaded_error", "Overloaded"));
    expect(await call({ deadlineInMs: 150 })).toMatchObject({
      result: { failure: { kind: "timeout", what: "deadline" } },
      unhandled: 0,
    });
    expect(wire.requests).toHaveLength(1);
  });

  it("a cut stream is no answer, whether it ends or breaks", async () => {
    wire.play(sse(start(), text(0, "Hal")));
    expect(await call()).toMatchObject({ result: { failure: { kind: "stream_cut" } }, unhandled: 0 });
    wire.play((response) => {
      silence(start(), text(0, "Hal"))(response);
      setImmediate(() => response.destroy());
    });
    expect(await call()).toMatchObject({ result: { failure: { kind: "stream_cut" } }, unhandled: 0 });
  });

  it("an error inside a stream is typed", async () => {
    const body =
      '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201 tokens > 200 maximum"}}';
    wire.play(sse(start(), event("error", body)));
    expect(await call()).toMatchObject({
      result: { failure: { kind: "context_overflow", statedLimit: 200, statedSize: 201 } },
      unhandled: 0,
    });
  });

  it("an overflow is typed and not repeated", async () => {
    wire.play(
      failure(429, "rate_limit_error", "Request too large for m on tokens per min (TPM): Limit 300, Requested 340."),
    );
    expect(await call()).toMatchObject({
      result: { failure: { kind: "context_overflow", statedLimit: 300, statedSize: 340 } },
      unhandled: 0,
    });
    expect(wire.requests).toHaveLength(1);
  });

  it("a server that is not there is a network failure", async () => {
    expect(await call({ url: "http://127.0.0.1:1" })).toMatchObject({
      result: { failure: { kind: "network" } },
      unhandled: 0,
    });
  });
});
