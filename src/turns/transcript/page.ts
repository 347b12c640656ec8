/** The body of an import: one page of a transcript, in the format that it names. */
import { objectMembers } from "../../protocol/json-text.ts";
import { readChatCompletions } from "./chat-completions.ts";
import { type DraftMessage, expected, isObject, TranscriptError } from "./draft.ts";
import { readMessages } from "./messages-format.ts";

/**
 * Reads a page.
 * @param body the request's body as text: JSON, already known not to be nested too deep
 * @throws TranscriptError
 */
export const readPage = (body: string): readonly DraftMessage[] => {
  const page = parse(body);
  if (!isObject(page)) throw expected("body", "an object with `messages`", page);
  const unknown = Object.keys(page).find((key) => key !== "format" && key !== "messages");
  if (unknown !== undefined) throw new TranscriptError(unknown, "unknown field; expected `format` and `messages`");
  const { format = "messages", messages } = page;
  if (format !== "messages" && format !== "chat_completions")
    throw expected("format", "messages or chat_completions", format);
  if (!Array.isArray(messages) || messages.length === 0)
    throw expected("messages", "an array of at least one message", messages);
  const start = objectMembers(body).findLast(({ key }) => key === "messages")?.start ?? 0;
  return format === "messages" ? readMessages(messages, body, start) : readChatCompletions(messages, body, start);
};

const parse = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    throw new TranscriptError("body", "expected JSON");
  }
};
