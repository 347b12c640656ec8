/**
 * What a strict chat template does before a model sees anything, after the template that Mistral publishes with its models. Written from
 * that template's own loop, not from hango's code: an optional system message, then every message that is neither a tool's nor an answer
 * with calls must go user, assistant, user, ...; and ids of calls have nine letters and digits.
 */
import { ApiError } from "./errors.ts";

/** A message as far as a template looks at it. */
export interface TemplateMessage {
  readonly role: string;
  readonly toolCallIds: readonly string[];
  /** Of a tool's message. */
  readonly answers?: string;
}

const ROLES =
  "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.";
const IDS = "Tool call IDs should be alphanumeric strings with length 9!";

/** What a llama.cpp server answers when a template raises an exception. */
const raise = (message: string): ApiError =>
  new ApiError(500, `Jinja Exception: ${message}`, "server_error", { code: 500 });

/** What the template raises for these messages, or undefined. */
export const templateProblem = (messages: readonly TemplateMessage[]): string | undefined => {
  const loop = messages[0]?.role === "system" ? messages.slice(1) : messages;
  let index = 0;
  for (const message of loop) {
    if (message.role === "system") return ROLES;
    if (message.role === "tool" || message.toolCallIds.length > 0) continue;
    if ((message.role === "user") !== (index % 2 === 0)) return ROLES;
    index += 1;
  }
  const ids = loop.flatMap(({ toolCallIds, answers }) => [...toolCallIds, ...(answers === undefined ? [] : [answers])]);
  return ids.every((id) => /^[a-zA-Z0-9]{9}$/.test(id)) ? undefined : IDS;
};

/** @throws ApiError 500 where the template gives up */
export const applyTemplate = (messages: readonly TemplateMessage[]): void => {
  const problem = templateProblem(messages);
  if (problem !== undefined) throw raise(problem);
};
