/** A simulator for a test, and plain requests to it. */
import Anthropic from "@anthropic-ai/sdk";
import type { Simulator } from "../../../src/local/simulator/server.ts";

export const KEY = "sk-sim-test";
export const MODEL = "claude-sonnet-5-5";
export const OLDER = "claude-sonnet-4-5";

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: AnswerJson;
}

/** What assertions read of an answer or an error; fields of the other kind are absent. */
export interface AnswerJson {
  readonly content: readonly Block[];
  readonly usage: Readonly<Record<string, number>>;
  readonly stop_reason: string;
  readonly error: { readonly type: string; readonly message: string };
  readonly input_transformations?: readonly unknown[];
}
export interface Block {
  readonly type: string;
  readonly text: string;
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  readonly thinking: string;
  readonly signature: string;
}

/** An event stream has no JSON of its own. */
const parse = (text: string): AnswerJson => {
  try {
    return JSON.parse(text) as AnswerJson;
  } catch {
    return {} as AnswerJson;
  }
};

export const headersFor = (more: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  authorization: `Bearer ${KEY}`,
  "anthropic-version": "2026-10-21",
  "content-type": "application/json",
  ...more,
});

/** Posts a body: text as it is, anything else as JSON. */
export const post = async (
  simulator: Simulator,
  body: unknown,
  more: Readonly<Record<string, string>> = {},
  path = "/v1/messages",
): Promise<Reply> => {
  const response = await fetch(simulator.url + path, {
    method: "POST",
    headers: headersFor(more),
    body: typeof body === "string" || body instanceof Uint8Array ? (body as string) : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: parse(text) };
};

export const ask = (messages: readonly unknown[], more: Readonly<Record<string, unknown>> = {}) => ({
  model: MODEL,
  max_tokens: 1_000,
  messages,
  ...more,
});

export const user = (content: unknown) => ({ role: "user", content });
export const assistant = (content: unknown) => ({ role: "assistant", content });
export const text = (value: string, more: Readonly<Record<string, unknown>> = {}) => ({
  type: "text",
  text: value,
  ...more,
});
export const call = (id: string, input: unknown = {}, name = "ls") => ({ type: "tool_use", id, name, input });
export const result = (id: string, content: unknown = "done") => ({ type: "tool_result", tool_use_id: id, content });
export const tool = (name: string, properties: Readonly<Record<string, unknown>> = {}) => ({
  name,
  description: `The tool ${name}.`,
  input_schema: { type: "object", properties },
});

export const sdk = (simulator: Simulator, maxRetries = 0): Anthropic =>
  new Anthropic({ apiKey: KEY, baseURL: simulator.url, maxRetries });
