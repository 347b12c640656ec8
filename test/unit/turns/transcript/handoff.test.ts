import { describe, expect, it } from "vitest";
import { isForeignHandoff } from "../../../../src/turns/transcript/handoff.ts";

const HERMES = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n## Goal\nShip it.";
const HERMES_END = "\n\n--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---";
const PI =
  "The conversation history before this point was compacted into the following summary:\n\n<summary>\nDone.\n</summary>";
const DEEPAGENTS =
  "You are in the middle of a conversation that has been summarized.\n\nThe full conversation history has been saved to /conversation_history/a.md should you need to refer back to it for details.\n\nA condensed summary follows:\n\n<summary>\nDone.\n</summary>";
const CLAUDE_CODE =
  "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\nSummary:\n1. Primary Request and Intent: ...";

const handoffs: readonly (readonly [string, "user" | "assistant", readonly string[]])[] = [
  ["Claude Code", "user", [CLAUDE_CODE]],
  [
    "Claude Code beside a reminder",
    "user",
    [CLAUDE_CODE, "<system-reminder>\nuse the todo list\n</system-reminder>\n"],
  ],
  ["Hermes", "user", [HERMES]],
  ["Hermes with its end mark", "user", [HERMES + HERMES_END]],
  ["Hermes in the assistant's name", "assistant", [HERMES + HERMES_END]],
  ["Hermes, older", "assistant", ["[CONTEXT SUMMARY]: the user asked for a parser"]],
  ["deepagents", "user", [DEEPAGENTS]],
  ["LangChain", "user", ["Here is a summary of the conversation to date:\n\n## SESSION INTENT\nA parser."]],
  ["pi", "user", [PI]],
  [
    "pi, a branch",
    "user",
    ["The following is a summary of a branch that this conversation came back from:\n\n<summary>\nx\n</summary>"],
  ],
  ["a summary that quotes its own tag", "user", [PI.replace("Done.", "It ends with </summary> here.\nDone.")]],
  [
    "Codex",
    "user",
    [
      "Another language model started to solve this problem and produced a summary of its thinking process. You also have access to...",
    ],
  ],
  ["Gemini CLI", "user", ["<state_snapshot>\n<overall_goal>x</overall_goal>\n</state_snapshot>"]],
  ["Aider", "user", ["I spoke to you previously about a number of things.\nI asked you to write a parser."]],
  ["OpenHands", "user", ["USER_CONTEXT: a parser\n\nCOMPLETED: lexer\n\nPENDING: grammar"]],
];

const others: readonly (readonly [string, "user" | "assistant", readonly string[] | null])[] = [
  ["an ask", "user", ["Please continue."]],
  ["an ask about compaction", "user", ["Why does [CONTEXT COMPACTION — REFERENCE ONLY] appear in my log?"]],
  ["an ask that quotes a handoff", "user", [`What does this mean?\n\n${CLAUDE_CODE}`]],
  ["a handoff with a user's words after its end mark", "user", [`${HERMES}${HERMES_END}\n\nNow fix the tests.`]],
  ["a handoff with a user's words after its tag", "user", [`${PI}\n\nNow fix the tests.`]],
  ["a handoff beside a user's block", "user", [DEEPAGENTS, "Now fix the tests."]],
  [
    "a summary that an assistant was asked for",
    "assistant",
    ["Here is a summary of the conversation to date:\n\n- a parser"],
  ],
  ["an assistant that quotes Claude Code", "assistant", [CLAUDE_CODE]],
  ["a sentence that only begins alike", "user", ["This session is being continued from a previous visit."]],
  ["a bracket that only begins alike", "user", ["[CONTEXT COMPACTIONS are bad]"]],
  ["half of the condenser's headings", "user", ["USER_CONTEXT: a parser"]],
  ["a reminder alone", "user", ["<system-reminder>\nuse the todo list\n</system-reminder>"]],
  ["a message with other blocks", "user", null],
];

describe("handoffs of other systems", () => {
  it.each(handoffs)("are recognised: %s", (_, role, texts) => {
    expect(isForeignHandoff(role, texts)).toBe(true);
  });
  it.each(others)("are not seen in %s", (_, role, texts) => {
    expect(isForeignHandoff(role, texts)).toBe(false);
  });
});
