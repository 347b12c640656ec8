/** Questions that the agent asked and what it was answered: these answers are a user's decisions, and are kept verbatim (S2). */

import type { Seq } from "../protocol/ids.ts";
import { isRecord } from "../protocol/is-record.ts";

export interface Answer {
  /** The row with the answer. */
  readonly seq: Seq;
  readonly question: string;
  readonly answer: string;
  /** Whether a tool put the question, or a text ended with it. */
  readonly via: "tool" | "text";
}

/** Names of tools that put a question to a person, over the agent systems whose recordings we have. */
const ASKING_TOOL =
  /(?:^|[_\W])(?:ask|question|clarify|clarification|confirm|confirmation|prompt_user|human|elicit|get_user_input|request_input)(?:$|[_\W])|^(?:ask|clarify|confirm)[A-Z]|(?:Ask|Question|Clarif|Confirm)[A-Za-z]*$/;
const QUESTION_KEYS = ["question", "questions"] as const;

const questionText = (value: unknown): string | null => {
  if (typeof value === "string") return value.trim() === "" ? null : value.trim();
  if (Array.isArray(value)) {
    const texts = value.map(questionText).filter((text) => text !== null);
    return texts.length === 0 ? null : texts.join(" / ");
  }
  if (!isRecord(value)) return null;
  return questionText(value["question"] ?? value["text"] ?? value["prompt"]);
};

/** The question that a tool call puts to a person, or null where it puts none. */
export const askedBy = (toolName: string, input: unknown): string | null => {
  if (!isRecord(input)) return null;
  for (const key of QUESTION_KEYS) {
    const text = questionText(input[key]);
    if (text !== null) return text;
  }
  if (!ASKING_TOOL.test(toolName)) return null;
  return questionText(input["message"] ?? input["prompt"] ?? input["text"] ?? input["query"]) ?? toolName;
};

/** The question marks of the scripts that have their own. */
const ENDS_IN_QUESTION = /[?？؟]["'”’)*_\s]*$/u;
const LAST_LINES_CHARS = 600;
const SHORT_QUESTION_CHARS = 20;

/** What divides sentences; a question is what follows the last of them. */
const SENTENCE_END = /[.!?。！？؟:]["'”’)*_]*\s+|[。！？]/gu;

/** The question that an assistant's text ends with (its last sentence), or null. */
export const closingQuestion = (text: string): string | null => {
  const tail = text.slice(-LAST_LINES_CHARS).trimEnd();
  if (!ENDS_IN_QUESTION.test(tail)) return null;
  const line = tail.slice(tail.lastIndexOf("\n") + 1).trim();
  const ends = [...line.matchAll(SENTENCE_END)]
    .map((end) => end.index + end[0].length)
    .filter((at) => at < line.length);
  const sentence = line.slice(ends.at(-1) ?? 0).trim();
  // "Right?" says nothing by itself; the sentence before it belongs to it.
  return sentence.length >= SHORT_QUESTION_CHARS ? sentence : line.slice(ends.at(-2) ?? 0).trim() || null;
};
