import { expect, test } from "vitest";
import { chatAttributes, turnAttributes } from "../../../src/telemetry/genai.ts";

test("a chat span is named by the GenAI conventions; input tokens are the whole prompt, cached parts included", () => {
  const request = { model: "m", maxTokens: 100, system: [], tools: [], messages: [] };
  const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 30, cacheWriteTokens: 400 };
  const response = { id: "msg_1", model: "m-1", stopReason: "end_turn", usage } as Parameters<
    typeof chatAttributes.response
  >[0];
  expect({ ...chatAttributes.request("anthropic", request, "turn"), ...chatAttributes.response(response) }).toEqual({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "m",
    "gen_ai.request.max_tokens": 100,
    "hango.call.purpose": "turn",
    "gen_ai.response.id": "msg_1",
    "gen_ai.response.model": "m-1",
    "gen_ai.response.finish_reasons": ["end_turn"],
    "gen_ai.usage.input_tokens": 431,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.usage.cache_read.input_tokens": 30,
    "gen_ai.usage.cache_creation.input_tokens": 400,
  });
});

test("a turn's span carries its session and its run", () => {
  expect(turnAttributes("ses_1", "run_1")).toEqual({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "hango",
    "gen_ai.conversation.id": "ses_1",
    "hango.run.id": "run_1",
  });
});
