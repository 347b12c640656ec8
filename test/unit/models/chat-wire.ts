/** A chat completions server's end of the wire, and a provider on it. */
import type { Timers } from "../../../src/models/call-watch.ts";
import { type OpenAiSettings, openAiProvider } from "../../../src/models/openai.ts";
import type { Provider } from "../../../src/models/provider.ts";
import type { Wire } from "./wire.ts";

const envelope = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"/models/qwen.gguf"';

/** A chunk with this delta, as JSON text. */
export const chunk = (delta: string, finish: string | null = null): string =>
  `data: {${envelope},"choices":[{"index":0,"delta":${delta},"finish_reason":${JSON.stringify(finish)}}]}\n\n`;

export const content = (...pieces: readonly string[]): string =>
  pieces.map((piece) => chunk(`{"content":${JSON.stringify(piece)}}`)).join("");

export const reasoning = (piece: string, member = "reasoning_content"): string =>
  chunk(`{${JSON.stringify(member)}:${JSON.stringify(piece)}}`);

/** The pieces of one call. */
export const calling = (index: number, id: string, name: string, ...args: readonly string[]): string =>
  [
    chunk(
      `{"tool_calls":[{"index":${index},"id":${JSON.stringify(id)},"type":"function","function":{"name":${JSON.stringify(name)},"arguments":""}}]}`,
    ),
    ...args.map((piece) =>
      chunk(`{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(piece)}}}]}`),
    ),
  ].join("");

export const usage = (text = '{"prompt_tokens":10,"completion_tokens":7}'): string =>
  `data: {${envelope},"choices":[],"usage":${text}}\n\n`;

export const done = "data: [DONE]\n\n";

/** The end of an answer: its reason, its usage, the end of the stream. */
export const finish = (reason: string, usageText?: string): string => chunk("{}", reason) + usage(usageText) + done;

/** A provider on a wire; the ids that it makes are call_new1, call_new2, ... */
export const chatProviderOn = (wire: Wire, timers: Timers, settings: Partial<OpenAiSettings> = {}): Provider => {
  let made = 0;
  return openAiProvider({
    apiKey: "sk-test-key",
    baseURL: `${wire.url}/v1`,
    fetch,
    timers,
    resolveMedia: () => Promise.reject(new Error("no media expected")),
    strictAlternation: false,
    newCallId: () => {
      made += 1;
      return `call_new${made}`;
    },
    ...settings,
  });
};
