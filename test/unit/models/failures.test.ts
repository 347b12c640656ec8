import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CallAborted, ContextOverflowError } from "../../../src/models/errors.ts";
import { fromProviderError, readRetryAfterMs } from "../../../src/models/provider-errors.ts";
import {
  block,
  end,
  event,
  type FakeTimers,
  failure,
  failureOf,
  fakeTimers,
  json,
  options,
  providerOn,
  request,
  silence,
  sse,
  start,
  startWire,
  stop,
  text,
  toolUse,
  type Wire,
} from "./wire.ts";

let wire: Wire;
let timers: FakeTimers;
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);
beforeEach(async () => {
  wire = await startWire();
  timers = fakeTimers();
  unhandled.length = 0;
  process.on("unhandledRejection", onUnhandled);
});
afterEach(async () => {
  await wire.close();
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", onUnhandled);
  expect(unhandled).toEqual([]);
  expect(timers.pending()).toBe(0);
});

/** Answered fast by the SDK's back-off. */
const SOON = { "retry-after-ms": "1" };
const whole = sse(start(), text(0, "Hi."), end("end_turn"));
const generate = (settings = {}) => providerOn(wire, timers, settings).generate(request(), options(timers));

describe("a rejected call", () => {
  const rows: readonly [number, string, string, object, boolean][] = [
    [
      400,
      "invalid_request_error",
      "prompt is too long: 208310 tokens > 200000 maximum",
      { kind: "context_overflow", statedLimit: 200_000, statedSize: 208_310 },
      false,
    ],
    [413, "request_too_large", "Request exceeds the maximum size", { kind: "context_overflow" }, false],
    [
      429,
      "rate_limit_error",
      "Request too large for m on tokens per min (TPM): Limit 30000, Requested 34000.",
      { kind: "context_overflow", statedLimit: 30_000, statedSize: 34_000 },
      false,
    ],
    [
      500,
      "api_error",
      "the request exceeds the available context size. try increasing the context size",
      { kind: "context_overflow" },
      false,
    ],
    [
      400,
      "invalid_request_error",
      "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation",
      { kind: "invalid_thinking_signature" },
      false,
    ],
    [
      400,
      "invalid_request_error",
      "Your credit balance is too low to access the Anthropic API.",
      { kind: "quota" },
      false,
    ],
    [400, "invalid_request_error", "temperature: Extra inputs are not permitted", { kind: "invalid_request" }, false],
    [401, "authentication_error", "invalid key sk-ant-test-key", { kind: "authentication" }, false],
    [402, "billing_error", "pay", { kind: "quota" }, false],
    [403, "permission_error", "no", { kind: "permission" }, false],
    [404, "not_found_error", "model: claude-nope", { kind: "not_found" }, false],
    [422, "invalid_request_error", "no", { kind: "invalid_request" }, false],
    [
      429,
      "insufficient_quota",
      "You exceeded your current quota, please check your plan and billing details.",
      { kind: "quota" },
      false,
    ],
  ];
  it.each(rows)(
    "%d %s (%s) has a kind of its own and is not repeated",
    async (status, type, message, kind, retryable) => {
      wire.play(failure(status, type, message, SOON));
      for (let i = 0; i < 3; i++) wire.play(whole);
      const error = await failureOf(generate());
      expect(error.failure).toEqual(kind);
      expect([error.retryable, error.status, error.requestId]).toEqual([retryable, status, "req_1"]);
      expect(wire.requests).toHaveLength(1);
    },
  );

  const transient: readonly [number, string, object][] = [
    [408, "timeout_error", { kind: "timeout", what: "provider" }],
    [409, "api_error", { kind: "server" }],
    [429, "rate_limit_error", { kind: "rate_limited", retryAfterMs: 1 }],
    [500, "api_error", { kind: "server" }],
    [503, "api_error", { kind: "server" }],
    [504, "timeout_error", { kind: "timeout", what: "provider" }],
    [529, "overloaded_error", { kind: "overloaded" }],
  ];
  it.each(transient)("%d %s is repeated, then named", async (status, type, kind) => {
    for (let i = 0; i < 3; i++) wire.play(failure(status, type, "later", SOON));
    const error = await failureOf(generate());
    expect([error.failure, error.retryable, error.status]).toEqual([kind, true, status]);
    expect(wire.requests).toHaveLength(3);
  });

  it.each([429, 500, 529])("%d and then an answer is an answer, from the same bytes", async (status) => {
    wire.play(failure(status, "any", "later", SOON));
    wire.play(whole);
    expect((await generate()).text).toBe("Hi.");
    const [first, second] = wire.requests;
    expect(second?.body).toBe(first?.body);
  });

  it.each([
    ["beyond a minute", { "retry-after": "61" }, 61_000],
    ["beyond the deadline", { "retry-after": "20" }, 20_000],
  ])("is not waited for %s, and the wait is told", async (_, headers, retryAfterMs) => {
    wire.play(failure(429, "rate_limit_error", "later", headers));
    const error = await failureOf(
      providerOn(wire, timers).generate(request(), options(timers, { deadlineMs: timers.nowMs() + 15_000 })),
    );
    expect(error.failure).toEqual({ kind: "rate_limited", retryAfterMs });
    expect(wire.requests).toHaveLength(1);
  });

  it("tells no key and no headers", async () => {
    wire.play(
      failure(400, "invalid_request_error", "bad key sk-ant-test-key\nBearer abc.def  and AIzaSyA1234567890abc"),
    );
    const error = await failureOf(generate());
    expect(error.message).toBe("the provider rejected the request: bad key [redacted] [redacted] and [redacted]");
    expect(error.cause).toBeUndefined();
    expect(JSON.stringify(error)).not.toMatch(/test-key|authorization/i);
  });

  it("with a body that is no JSON is typed by its status", async () => {
    for (let i = 0; i < 3; i++) wire.play(json(502, "<html>Bad gateway</html>", SOON));
    expect((await failureOf(generate())).kind).toBe("server");
  });

  it("without a server is a network failure", async () => {
    const error = await failureOf(
      providerOn({ ...wire, url: "http://127.0.0.1:1" }, timers, { maxRetries: 0 }).generate(
        request(),
        options(timers),
      ),
    );
    expect([error.kind, error.retryable]).toEqual(["network", true]);
  });
});

describe("a stream that fails", () => {
  it.each([
    ["the end", [start(), text(0, "Hal")]],
    ["a stop reason", [start(), text(0, "Hal"), stop]],
    ["a stop reason that is not null", [start(), text(0, "Hal"), end(null)]],
    ["any event", []],
    [
      "message_stop",
      [
        start(),
        text(0, "x"),
        event(
          "message_delta",
          '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}',
        ),
      ],
    ],
    [
      "the block of a piece",
      [
        start(),
        event(
          "content_block_delta",
          '{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"x"}}',
        ),
        end("end_turn"),
      ],
    ],
  ])("without %s is cut, not an answer", async (_, events) => {
    wire.play(sse(...events));
    const error = await failureOf(generate());
    expect([error.kind, error.retryable]).toEqual(["stream_cut", true]);
    expect(wire.requests).toHaveLength(1);
  });

  it("because its connection breaks is cut", async () => {
    wire.play((response) => {
      silence(start(), text(0, "Hal"))(response);
      setImmediate(() => response.destroy());
    });
    expect((await failureOf(generate())).failure).toEqual({ kind: "stream_cut" });
  });

  it("with an event that is no JSON is cut, and the text of it is not told", async () => {
    wire.play(sse(start(), event("content_block_start", '{"secret'), end("end_turn")));
    const error = await failureOf(generate());
    expect([error.kind, error.message]).toEqual(["stream_cut", "the provider's answer broke off"]);
  });

  const inStream: readonly [string, string, object][] = [
    ["overloaded_error", "Overloaded", { kind: "overloaded" }],
    ["rate_limit_error", "later", { kind: "rate_limited" }],
    ["api_error", "Internal server error", { kind: "server" }],
    ["timeout_error", "too slow", { kind: "timeout", what: "provider" }],
    ["authentication_error", "no", { kind: "authentication" }],
    ["permission_error", "no", { kind: "permission" }],
    ["billing_error", "no", { kind: "quota" }],
    ["request_too_large", "no", { kind: "context_overflow" }],
    ["invalid_request_error", "bad", { kind: "invalid_request" }],
    [
      "invalid_request_error",
      "prompt is too long: 201 tokens > 200 maximum",
      { kind: "context_overflow", statedLimit: 200, statedSize: 201 },
    ],
    ["error_of_the_future", "?", { kind: "server" }],
  ];
  it.each(inStream)("with an error event %s (%s) is typed without a status", async (type, message, kind) => {
    wire.play(
      sse(start(), text(0, "Hal"), event("error", JSON.stringify({ type: "error", error: { type, message } }))),
    );
    const error = await failureOf(generate());
    expect([error.failure, error.status]).toEqual([kind, undefined]);
  });

  it("into the end of the window is an overflow, and what was written is no answer", async () => {
    wire.play(sse(start(), text(0, "Half an ans"), end("model_context_window_exceeded")));
    const error = await failureOf(generate());
    expect(error).toBeInstanceOf(ContextOverflowError);
    expect(error.requestId).toBe("req_1");
  });

  it("with a stop reason that is not known is a failure, not a guess", async () => {
    wire.play(sse(start(), text(0, "x"), end("bored")));
    const error = await failureOf(generate());
    expect([error.kind, error.message]).toEqual(["server", 'the provider failed: stop reason "bored"']);
  });

  it("with a tool call that has no id is cut", async () => {
    wire.play(sse(start(), block(0, '{"type":"tool_use","name":"ls","input":{}}'), end("tool_use")));
    expect((await failureOf(generate())).kind).toBe("stream_cut");
  });
});

describe("a call ends", () => {
  /** A call, and a promise of the moment when it has received the text "go". */
  const begun = (changes = {}, settings = {}) => {
    const heard = Promise.withResolvers<void>();
    const call = providerOn(wire, timers, settings).generate(
      request(),
      options(timers, {
        ...changes,
        onDelta: (delta) => {
          if (delta.kind === "text" && delta.text === "go") heard.resolve();
        },
      }),
    );
    call.catch(() => {});
    return { call, heard: heard.promise };
  };

  it("when the caller aborts before it begins, unsent", async () => {
    const error = await failureOf(
      providerOn(wire, timers).generate(request(), options(timers, { signal: AbortSignal.abort() })),
    );
    expect(error).toBeInstanceOf(CallAborted);
    expect(wire.requests).toEqual([]);
  });

  it("when the caller aborts in mid-answer, and the connection with it", async () => {
    const controller = new AbortController();
    wire.play(silence(start(), text(0, "go")));
    const { call, heard } = begun({ signal: controller.signal });
    await heard;
    controller.abort();
    const error = await failureOf(call);
    expect([error instanceof CallAborted, error.kind, error.retryable]).toEqual([true, "aborted", false]);
    await wire.left;
  });

  it("when the caller aborts during the wait before a retry", async () => {
    const controller = new AbortController();
    wire.play((response) => {
      failure(429, "rate_limit_error", "later", { "retry-after": "30" })(response);
      response.on("close", () => setImmediate(() => controller.abort()));
    });
    const error = await failureOf(
      providerOn(wire, timers).generate(request(), options(timers, { signal: controller.signal })),
    );
    expect(error.kind).toBe("aborted");
  });

  it("not by silence during the wait before a retry", async () => {
    const controller = new AbortController();
    const waiting = Promise.withResolvers<void>();
    const watched: FakeTimers = {
      ...timers,
      after: (delayMs, run) => {
        const cancel = timers.after(delayMs, run);
        return () => {
          cancel();
          if (delayMs === 120_000) waiting.resolve();
        };
      },
    };
    wire.play(failure(429, "rate_limit_error", "later", { "retry-after": "30" }));
    const call = providerOn(wire, watched).generate(request(), options(timers, { signal: controller.signal }));
    call.catch(() => {});
    await waiting.promise;
    timers.advance(130_000);
    controller.abort();
    expect((await failureOf(call)).kind).toBe("aborted");
  });

  it("without a listener left on the caller's signal", async () => {
    const { signal } = new AbortController();
    wire.play(whole);
    await providerOn(wire, timers).generate(request(), options(timers, { signal }));
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("after 120 s of silence (S7)", async () => {
    wire.play(silence(start(), text(0, "go")));
    const { call, heard } = begun();
    await heard;
    timers.advance(119_999);
    timers.advance(1);
    expect((await failureOf(call)).failure).toEqual({ kind: "timeout", what: "idle" });
    await wire.left;
  });

  it("not while pings come", async () => {
    const server = Promise.withResolvers<(events: string, done?: boolean) => void>();
    wire.play((response) => {
      silence(start(), text(0, "go"))(response);
      server.resolve((events, done) => (done ? response.end(events) : response.write(events)));
    });
    const { call, heard } = begun();
    await heard;
    const send = await server.promise;
    timers.advance(100_000);
    send(event("ping", '{"type":"ping"}'));
    await expect.poll(() => timers.nextDueMs()).toBe(timers.nowMs() + 120_000);
    timers.advance(100_000);
    send(end("end_turn"), true);
    expect((await call).text).toBe("go");
  });

  it("at the deadline, whatever still arrives", async () => {
    wire.play(silence(start(), text(0, "go")));
    const { call, heard } = begun({ deadlineMs: timers.nowMs() + 50_000 });
    await heard;
    timers.advance(50_000);
    expect((await failureOf(call)).failure).toEqual({ kind: "timeout", what: "deadline" });
  });

  it("unsent when the deadline has passed", async () => {
    const error = await failureOf(
      providerOn(wire, timers).generate(request(), options(timers, { deadlineMs: timers.nowMs() })),
    );
    expect(error.failure).toEqual({ kind: "timeout", what: "deadline" });
    expect(wire.requests).toEqual([]);
  });

  it("at the deadline during the wait before a retry, without another attempt", async () => {
    wire.play((response) => {
      failure(529, "overloaded_error", "Overloaded", { "retry-after": "30" })(response);
      response.on("close", () => setImmediate(() => timers.advance(40_000)));
    });
    wire.play(whole);
    const error = await failureOf(
      providerOn(wire, timers).generate(request(), options(timers, { deadlineMs: timers.nowMs() + 40_000 })),
    );
    expect(error.failure).toEqual({ kind: "timeout", what: "deadline" });
    expect(wire.requests).toHaveLength(1);
  });

  it("when no headers come in time, after its retries", async () => {
    for (let i = 0; i < 2; i++) wire.play(() => {});
    const error = await failureOf(generate({ idleTimeoutMs: 20, maxRetries: 0 }));
    expect(error.failure).toEqual({ kind: "timeout", what: "provider" });
  });

  it("with a whole answer, although the connection stays open", async () => {
    wire.play(silence(start(), text(0, "go"), toolUse(1, "t", "ls", "{}"), end("tool_use")));
    const { call, heard } = begun();
    await heard;
    await expect.poll(() => timers.nextDueMs()).toBe(timers.nowMs() + 1_000);
    timers.advance(1_000);
    expect((await call).stopReason).toBe("tool_use");
    await wire.left;
  });
});

describe("a provider's error", () => {
  it("of a chat-completions server is known by its code", () => {
    expect(fromProviderError({ status: 400, message: "Bad request", code: "context_length_exceeded" })).toBeInstanceOf(
      ContextOverflowError,
    );
  });

  it.each([
    [{ "retry-after": "2" }, 2_000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after-ms": "70", "retry-after": "2" }, 70],
    [{ "retry-after": "Thu, 01 Jan 1970 00:00:05 GMT" }, 4_000],
    [{ "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, 0],
    [{ "retry-after": "soon" }, undefined],
    [{}, undefined],
  ])("asks with %j to wait %s ms", (headers, expected) => {
    expect(readRetryAfterMs(new Headers(headers as Record<string, string>), 1_000)).toBe(expected);
  });
});
