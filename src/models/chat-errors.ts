/** Errors of chat completions servers in one shape: each server has its own. */
import { isRecord } from "../protocol/is-record.ts";

type Json = Readonly<Record<string, unknown>>;
const words = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value ?? ""));

/** What llama.cpp states beside its message, for `readOverflow`. */
const statedSizes = (error: Json): string =>
  typeof error.n_ctx === "number"
    ? ` (n_prompt_tokens=${words(error.n_prompt_tokens ?? 0)}, n_ctx=${error.n_ctx})`
    : "";

/**
 * The body of an error as OpenAI's SDK reads it, `{"error": {"message", "type", "code"}}`: vLLM's older servers leave the wrapper out, Ollama
 * sends a text, FastAPI a `detail`, and llama.cpp has numbers that its message may not have. A body that is no JSON stays.
 */
export const chatErrorBody = (text: string): string => {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return text;
  }
  const first: unknown = Array.isArray(body) ? body[0] : body;
  if (!isRecord(first)) return text;
  const error = first.error ?? first;
  if (!isRecord(error)) return JSON.stringify({ error: { message: words(error) } });
  const message = words(error.message ?? error.detail ?? error);
  return JSON.stringify({ error: { message: `${message}${statedSizes(error)}`, type: error.type, code: error.code } });
};
