import { describe, expect, it } from "vitest";
import { ContextOverflowError, ModelError } from "../../../src/models/errors.ts";
import type { ModelRequest, ModelResponse } from "../../../src/protocol/messages.ts";
import { observeChat } from "../../../src/telemetry/chat.ts";
import { noContent } from "../../../src/telemetry/content.ts";
import type { CallPurpose } from "../../../src/telemetry/genai.ts";
import { recordingMeter } from "../../../src/telemetry/meter.ts";
import { recordingTracer } from "../../../src/telemetry/recording.ts";
import { noopSpan } from "../../../src/telemetry/tracer.ts";
import { PLANTED } from "../../support/secrets.ts";

const request: ModelRequest = { model: "m", maxTokens: 10, system: [], tools: [], messages: [] };
const usage = { inputTokens: 10, cacheReadTokens: 60, cacheWriteTokens: 30, outputTokens: 5 };
const response = { id: "r", model: "m-1", content: "[]", stopReason: "end_turn", usage } as unknown as ModelResponse;

const observed = async (
  work: () => Promise<ModelResponse>,
  purpose: CallPurpose = "turn",
  cost: number | null = 0.5,
  model = "m",
) => {
  const tracer = recordingTracer();
  const meter = recordingMeter();
  let nowMs = 0;
  const telemetry = { tracer, meter, content: noContent, now: () => nowMs };
  const call = { provider: "p", request: { ...request, model }, purpose, parent: noopSpan, costUsd: () => cost };
  const outcome = await observeChat(telemetry, call, () => {
    nowMs = 1_500;
    return work();
  }).catch((error: unknown) => error);
  return {
    outcome,
    tracer,
    points: meter.points.map(({ name, value, attributes }) => ({ name, value, ...attributes })),
  };
};

const OF = { "gen_ai.request.model": "m", "hango.call.purpose": "turn" };
const COMMON = { ...OF, "gen_ai.operation.name": "chat", "gen_ai.provider.name": "p" };

describe("a model call", () => {
  it("is one span, and its time, tokens, cost, context and cache in metrics", async () => {
    const { outcome, tracer, points } = await observed(async () => response);
    expect(outcome).toBe(response);
    expect(tracer.only("chat m")).toMatchObject({ kind: "client", attributes: { "gen_ai.usage.input_tokens": 100 } });
    expect(points).toEqual([
      { name: "gen_ai.client.token.usage", value: 100, ...COMMON, "gen_ai.token.type": "input" },
      { name: "gen_ai.client.token.usage", value: 5, ...COMMON, "gen_ai.token.type": "output" },
      { name: "hango.usage.cost", value: 0.5, ...OF },
      { name: "hango.context.input_tokens", value: 100, "gen_ai.request.model": "m" },
      { name: "hango.cache.read_ratio", value: 0.6, "gen_ai.request.model": "m" },
      { name: "gen_ai.client.operation.duration", value: 1.5, ...COMMON, "error.type": undefined },
    ]);
  });

  it("of a summariser says nothing of a session's context or cache; without a price there is no cost", async () => {
    const { points } = await observed(async () => response, "summarize", null);
    expect(points.map(({ name }) => name)).toEqual([
      "gen_ai.client.token.usage",
      "gen_ai.client.token.usage",
      "gen_ai.client.operation.duration",
    ]);
  });

  it("that the provider did not count has no tokens", async () => {
    const { points } = await observed(async () => ({ ...response, usageMissing: true }));
    expect(points.map(({ name }) => name)).toEqual(["gen_ai.client.operation.duration"]);
  });

  it.each([
    ["rate_limited", new ModelError({ kind: "rate_limited" })],
    ["context_overflow", new ContextOverflowError()],
    ["TypeError", new TypeError("with content")],
  ])("that fails names its kind, %s, and passes the error on", async (kind, error) => {
    const { outcome, tracer, points } = await observed(() => Promise.reject(error));
    expect(outcome).toBe(error);
    expect(tracer.only("chat m").error).toBe(kind);
    expect(points).toEqual([{ name: "gen_ai.client.operation.duration", value: 1.5, ...COMMON, "error.type": kind }]);
  });

  it("(S6) of a model that is named like a key names none in a span or a metric", async () => {
    const secret = PLANTED[0]?.secret ?? "";
    const { tracer, points } = await observed(async () => response, "turn", 0.5, PLANTED[0]?.text);
    expect(secret).not.toBe("");
    expect(JSON.stringify([tracer.all().map(({ name }) => name), points])).not.toContain(secret);
  });

  it("that broke off for want of room was paid for", async () => {
    const paid = new ContextOverflowError({}, {}, { model: "m", usage });
    const { points } = await observed(() => Promise.reject(paid));
    expect(points.map(({ name, value }) => [name, value])).toContainEqual(["hango.usage.cost", 0.5]);
  });
});
