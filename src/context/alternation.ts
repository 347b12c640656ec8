/**
 * Alternating roles for servers whose chat templates enforce them (R8). Such a template (Mistral's, for one) counts the messages that are
 * neither results nor answers with calls, and refuses the whole request where those do not go user, assistant, user, ... from the first.
 *
 * Pure, from left to right: what is added depends on what stands before it alone, so that a longer view begins with the bytes of a shorter
 * one (V2). A message that is missing is therefore filled in, never merged into one that may have been sent alone. The exception is the
 * handoff: it never drives a call by itself (R1), so the user message that directly follows it was there when it was first sent.
 */
import type { Role, ViewMessage } from "../protocol/messages.ts";
import { blockTexts, blockType, joinBlocks } from "./imported.ts";

/** Stands where an answer is missing: between two messages of the user, and between results and what the user said meanwhile. */
const NO_ANSWER = '[{"type":"text","text":"(no answer here)"}]';

/** Stands where a message of the user is missing, between two answers. It asks for nothing (R7). */
const NO_MESSAGE = '[{"type":"text","text":"(no message here)"}]';

const filler = (role: Role): ViewMessage => ({
  role,
  content: role === "user" ? NO_MESSAGE : NO_ANSWER,
  media: [],
});

const RESULT = '"tool_result"';
const CALL = '"tool_use"';

const hasBlock = (message: ViewMessage, type: string, sign: string): boolean =>
  message.content.includes(sign) && blockTexts(message.content).some((block) => blockType(block) === type);

/** A message as a template sees it: results are exempt, and what stands behind them in the same message is not. */
interface Parts {
  readonly exempt: ViewMessage | null;
  readonly visible: ViewMessage | null;
}

const partsOf = (message: ViewMessage): Parts => {
  if (message.role === "assistant")
    return hasBlock(message, "tool_use", CALL)
      ? { exempt: message, visible: null }
      : { exempt: null, visible: message };
  if (!message.content.includes(RESULT)) return { exempt: null, visible: message };
  const blocks = blockTexts(message.content);
  const results = blocks.filter((block) => blockType(block) === "tool_result");
  if (results.length === 0) return { exempt: null, visible: message };
  if (results.length === blocks.length) return { exempt: message, visible: null };
  const others = blocks.filter((block) => blockType(block) !== "tool_result");
  return {
    exempt: { role: "user", content: joinBlocks(results), media: message.media },
    visible: { role: "user", content: joinBlocks(others), media: message.media },
  };
};

/**
 * The role that a template counts a message under, or undefined for tool traffic: an answer with calls, a message of results alone.
 * What is both results and text counts as a user's.
 */
export const templateRole = (message: ViewMessage): Role | undefined => partsOf(message).visible?.role;

/** The handoff together with the user message behind it: the handoff's block stays first. */
const merged = (handoff: ViewMessage, next: ViewMessage): ViewMessage => ({
  role: "user",
  content: joinBlocks([...blockTexts(handoff.content), ...blockTexts(next.content)]),
  media: next.media,
  handoff: true,
  merged: true,
});

/** Merges the handoff into a user message that directly follows it: two in a row have no standalone roles (R8). */
const withHandoffMerged = (messages: readonly ViewMessage[], drivesAlone: boolean): readonly ViewMessage[] => {
  const [first, second, ...rest] = messages;
  if (first?.handoff !== true || second === undefined || drivesAlone) return messages;
  const { exempt, visible } = partsOf(second);
  return exempt === null && visible?.role === "user" ? [merged(first, second), ...rest] : messages;
};

/**
 * The messages of a view, so that a template which counts roles accepts them (R8).
 * @param drivesAlone whether the handoff asks for an answer by itself: it restates a request (C4), and may have been sent as the only message
 * @returns the same list where nothing had to be done
 */
export const alternate = (messages: readonly ViewMessage[], drivesAlone: boolean): readonly ViewMessage[] => {
  const sent: ViewMessage[] = [];
  let last: Role = "assistant";
  for (const message of withHandoffMerged(messages, drivesAlone)) {
    const { exempt, visible } = partsOf(message);
    if (visible === null || visible.role !== last) {
      sent.push(message);
      last = visible?.role ?? last;
      continue;
    }
    if (exempt !== null) sent.push(exempt);
    sent.push(filler(last === "user" ? "assistant" : "user"), visible);
  }
  const isSame = sent.length === messages.length && sent.every((message, at) => message === messages[at]);
  return isSame ? messages : sent;
};

/**
 * Where a template would refuse the messages: the index of the first whose role it does not expect (C7, R8).
 * @returns undefined where it accepts them
 */
export const firstOutOfTurn = (messages: readonly ViewMessage[]): number | undefined => {
  let last: Role = "assistant";
  for (const [index, message] of messages.entries()) {
    const role = templateRole(message);
    if (role === undefined) continue;
    if (role === last) return index;
    last = role;
  }
  return undefined;
};
