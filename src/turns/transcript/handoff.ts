/**
 * Recognises handoffs that other systems left in a transcript: summaries of earlier turns, put in as messages. They are stored as
 * `injected`, so that nothing takes them for a user's words (C4, R2, R7). Known beginnings only: a user's message taken for a
 * handoff would be an ask that is lost.
 */
import type { Role } from "../../protocol/messages.ts";

interface HandoffShape {
  readonly begins: (text: string) => boolean;
  /** What the summary's last line begins with or ends in. Words after it are the user's own, and make the message theirs. */
  readonly end?: { readonly mark: string; readonly restOfLine: boolean };
  /** Also written in the assistant's name. */
  readonly assistant?: true;
}

const beginsWith =
  (...beginnings: readonly string[]) =>
  (text: string): boolean =>
    beginnings.some((beginning) => text.startsWith(beginning));

const SUMMARY_TAG = { mark: "</summary>", restOfLine: false } as const;

/** By the system that writes them. */
const SHAPES: Readonly<Record<string, HandoffShape>> = {
  "Claude Code": { begins: beginsWith("This session is being continued from a previous conversation") },
  Hermes: {
    begins: (text) => /^\[CONTEXT COMPACTION\b[^\]\n]*\]/.test(text) || text.startsWith("[CONTEXT SUMMARY]:"),
    end: { mark: "--- END OF CONTEXT SUMMARY", restOfLine: true },
    assistant: true,
  },
  deepagents: {
    begins: beginsWith("You are in the middle of a conversation that has been summarized."),
    end: SUMMARY_TAG,
  },
  LangChain: { begins: beginsWith("Here is a summary of the conversation to date:\n") },
  pi: {
    begins: beginsWith(
      "The conversation history before this point was compacted into the following summary:\n",
      "The following is a summary of a branch that this conversation came back from:\n",
    ),
    end: SUMMARY_TAG,
  },
  Codex: {
    begins: beginsWith(
      "Another language model started to solve this problem and produced a summary of its thinking process.",
    ),
  },
  "Gemini CLI": { begins: beginsWith("<state_snapshot>"), end: { mark: "</state_snapshot>", restOfLine: false } },
  Aider: { begins: beginsWith("I spoke to you previously about a number of things.\n") },
  // The condenser puts its summary in unmarked; its prompt prescribes these headings.
  OpenHands: {
    begins: (text) => text.startsWith("USER_CONTEXT:") && text.includes("\nCOMPLETED:") && text.includes("\nPENDING:"),
  },
};

/** What stands after the end of a summary; empty where there is no mark. */
const afterEnd = (text: string, end: HandoffShape["end"]): string => {
  const at = end === undefined ? -1 : text.lastIndexOf(end.mark);
  if (end === undefined || at === -1) return "";
  const rest = text.slice(at + end.mark.length);
  if (!end.restOfLine) return rest;
  const line = rest.indexOf("\n");
  return line === -1 ? "" : rest.slice(line);
};

const isHandoffText = (text: string, role: Role): boolean => {
  const trimmed = text.trimStart();
  return Object.values(SHAPES).some(
    ({ begins, end, assistant }) =>
      (role === "user" || assistant === true) && begins(trimmed) && afterEnd(trimmed, end).trim() === "",
  );
};

/** Reminders of the harness stand beside a handoff without making it a user's message. */
const isReminder = (text: string): boolean => {
  const trimmed = text.trim();
  return trimmed.startsWith("<system-reminder>") && trimmed.endsWith("</system-reminder>");
};

/**
 * Whether a message is nothing but another system's handoff.
 * @param texts the texts of its blocks when it holds only text, else null
 */
export const isForeignHandoff = (role: Role, texts: readonly string[] | null): boolean => {
  if (texts === null) return false;
  const handoffs = texts.map((text) => isHandoffText(text, role));
  return handoffs.includes(true) && texts.every((text, index) => handoffs[index] === true || isReminder(text));
};
