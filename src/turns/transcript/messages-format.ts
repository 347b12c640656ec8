/**
 * A page of a transcript in the format of the Messages API. The content of a message is cut out of the request as it stands there:
 * its spaces, number forms, key order and escapes are what is stored (V9).
 */
import { arrayElements, objectMembers, repairSurrogates } from "../../protocol/json-text.ts";
import { checkBlocks } from "./blocks.ts";
import { type DraftMessage, expected, isObject, requireText } from "./draft.ts";

/** The raw text of an object's member; of duplicates the last, which is the one that a parser takes. */
const rawMember = (text: string, from: number, key: string): string => {
  const member = objectMembers(text, from).findLast((each) => each.key === key);
  return member === undefined ? "" : text.slice(member.start, member.end);
};

const readMessage = (given: unknown, body: string, start: number, path: string): DraftMessage => {
  if (!isObject(given)) throw expected(path, "a message", given);
  const { role, content } = given;
  if (role === "system" || role === "developer") {
    throw expected(
      `${path}.role`,
      "user or assistant (the system prompt is the session's own `system`, not part of its log)",
      role,
    );
  }
  if (role !== "user" && role !== "assistant") throw expected(`${path}.role`, "user or assistant", role);
  const raw = rawMember(body, start, "content");
  const repaired = repairSurrogates(raw);
  const common = { role, path, repaired: repaired !== raw } as const;
  if (typeof content === "string") {
    const text = requireText(content, `${path}.content`);
    return { ...common, content: `[{"type":"text","text":${repaired}}]`, calls: [], results: [], texts: [text] };
  }
  if (!Array.isArray(content) || content.length === 0) {
    throw expected(`${path}.content`, "a text or an array of at least one content block", content);
  }
  return { ...common, content: repaired, ...checkBlocks(role, content, `${path}.content`) };
};

/**
 * Reads messages of the Messages API. Fields of a message besides `role` and `content` (a stored answer's `id`, `usage`, ...) are
 * passed over.
 * @param messages the parsed array
 * @param body the text that it was parsed from
 * @param start where the array starts in that text
 * @throws TranscriptError
 */
export const readMessages = (messages: readonly unknown[], body: string, start: number): readonly DraftMessage[] => {
  const spans = arrayElements(body, start);
  return messages.map((message, index) =>
    readMessage(message, body, spans[index]?.start ?? start, `messages[${index}]`),
  );
};
