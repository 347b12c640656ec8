/**
 * What answers when no script does: a small deterministic agent. It follows plain commands with the tools it is offered,
 * quotes their results, answers questions with lines from its prompt, and summarises by picking lines.
 */
import { inputFor, MEMORY_FILE, readCommands } from "./commands.ts";
import { findLines, keywords, linesOf, summarize } from "./extract.ts";
import type { Json, JsonObject } from "./json.ts";
import { isArray, isObject } from "./json.ts";
import type { SimRequest } from "./request.ts";
import type { ScriptBlock, ScriptReply } from "./script.ts";
import type { SimMessage } from "./validate-messages.ts";

const NOTICE = "I am a simulator of the Messages API, not a language model.";
const ABILITIES =
  'I follow plain commands: read /notes.md, write /a.md: text, edit /a.md: "old" -> "new", list /, search "x", glob *.md, delete /a.md, todo one; two, load skill x, remember: text, delegate: read /notes.md, call a_tool {"name": "value"}.';
const SUMMARY_REQUEST = /\b(summari[sz]e|summari[sz]er|write (a|the) summary|summary of)\b/i;
/** Characters of a result that are quoted. */
const QUOTE_LENGTH = 2_000;
const MAX_LINES = 3;

type Said = Pick<SimRequest, "messages" | "system" | "tools" | "thinks">;

const textsOf = (content: Json | undefined): string => {
  if (typeof content === "string") return content;
  if (!isArray(content)) return "";
  return content
    .filter(isObject)
    .map((block) => (block.type === "text" ? String(block.text) : `[${String(block.type)}]`))
    .join("\n");
};

const textOf = (message: SimMessage): string =>
  message.blocks
    .filter((block) => block.type === "text")
    .map((block) => String(block.text))
    .join("\n");

/** The user messages since the last answer, and what came before them. */
const split = (messages: readonly SimMessage[]) => {
  const last = messages.findLastIndex((message) => message.role === "assistant");
  return { before: messages.slice(0, last + 1), now: messages.slice(last + 1) };
};

const asksForSummary = (request: Said): boolean => {
  if (request.tools.length > 0) return false;
  const asked = request.messages.at(-1);
  const text = asked === undefined ? "" : textOf(asked);
  return (
    SUMMARY_REQUEST.test(request.system.slice(0, 4_000)) ||
    SUMMARY_REQUEST.test(text.slice(0, 1_000)) ||
    SUMMARY_REQUEST.test(text.slice(-1_000))
  );
};

/** What a call is for, as far as its text shows it: a summary is asked for without offering tools. */
export const purposeOf = (request: Said): "turn" | "summarize" => (asksForSummary(request) ? "summarize" : "turn");

const quote = (text: string): string =>
  text.length <= QUOTE_LENGTH
    ? text
    : `${text.slice(0, QUOTE_LENGTH).toWellFormed()}\n[${text.length - QUOTE_LENGTH} more characters]`;

const describeCall = (call: JsonObject | undefined): string => {
  const input = isObject(call?.input) ? Object.values(call.input) : [];
  const target = input.find((value) => typeof value === "string");
  return `${String(call?.name ?? "the tool")}${target === undefined ? "" : ` ${JSON.stringify(target)}`}`;
};

/** One paragraph for each tool result that has just come in. */
const quoteResults = (before: readonly SimMessage[], now: readonly SimMessage[]): readonly string[] => {
  const calls = before.at(-1)?.blocks.filter((block) => block.type === "tool_use") ?? [];
  return now
    .flatMap((message) => message.blocks)
    .filter((block) => block.type === "tool_result")
    .map((result) => {
      const call = describeCall(calls.find((one) => one.id === result.tool_use_id));
      const text = quote(textsOf(result.content)) || "(nothing)";
      return result.is_error === true ? `${call} failed: ${text}` : `${call} said:\n${text}`;
    });
};

const isQuestion = (text: string): boolean =>
  /\?\s*$/.test(text.trim()) ||
  /^(what|when|where|who|whom|which|why|how|did|do|does|is|are|was|were|tell me)\b/i.test(text.trim());

const toolTexts = (messages: readonly SimMessage[]): string =>
  messages
    .flatMap((message) => message.blocks)
    .filter((block) => block.type === "tool_result")
    .map((block) => textsOf(block.content))
    .join("\n");

/** Answers from the prompt: what the user said first, then what else stands in it. */
const recall = (question: string, request: Said, before: readonly SimMessage[]): string => {
  const said = before.filter((message) => message.role === "user").map(textOf);
  const users = findLines(question, said.flatMap(linesOf), MAX_LINES);
  if (users.length > 0) return `You said: ${users.map((line) => `"${line}"`).join("; ")}`;
  const rest = [
    toolTexts(before),
    ...before.filter((message) => message.role === "assistant").map(textOf),
    request.system,
  ];
  const others = findLines(question, rest.flatMap(linesOf), MAX_LINES);
  if (others.length > 0) return `I find this in our conversation: ${others.map((line) => `"${line}"`).join("; ")}`;
  return `I find nothing about ${keywords(question).join(", ") || "that"} in our conversation.`;
};

const answerText = (asked: string, request: Said, before: readonly SimMessage[]): string => {
  if (asked.trim() === "") return "Go on.";
  if (/^\s*(please\s+)?summari[sz]e\b/i.test(asked)) return summarize(request.messages.map(textOf).join("\n"));
  if (isQuestion(asked)) return recall(asked, request, before);
  return `You said: "${quote(asked.trim())}". ${ABILITIES}`;
};

/** What the instructions hold of the agent's memory file. */
const memoryIn = (system: string): string => {
  const [, after = ""] = system.split(`<memory path=${JSON.stringify(MEMORY_FILE)}>\n`);
  return after.split("\n</memory>")[0] ?? "";
};

const thinkingBlock = (request: Said, text: string): readonly ScriptBlock[] =>
  request.thinks ? [{ type: "thinking", thinking: text }] : [];

/** Empty results for the provider's own tool calls that the turn paused in. */
const closeServerCalls = (before: readonly SimMessage[]): readonly ScriptBlock[] =>
  (before.at(-1)?.blocks ?? [])
    .filter((block) => block.type === "server_tool_use")
    .map((block) => ({ type: `${String(block.name)}_tool_result`, tool_use_id: String(block.id), content: [] }));

/** The agent's answer to a request. */
export const answerAs = (request: Said): ScriptReply => {
  if (asksForSummary(request)) {
    return { content: [{ type: "text", text: summarize(request.messages.map(textOf).join("\n")) }] };
  }
  const { before, now } = split(request.messages);
  if (now.length === 0)
    return { content: [...closeServerCalls(before), { type: "text", text: "The search is done; I go on." }] };
  const asked = now
    .map(textOf)
    .filter((text) => text !== "")
    .join("\n");
  const results = quoteResults(before, now);
  const commands = readCommands(asked, memoryIn(request.system));
  const offered = new Map(request.tools.map((tool) => [String(tool.name), tool]));
  const missing = commands
    .filter((command) => !offered.has(command.tool))
    .map((command) => `I have no tool ${command.tool}.`);
  const calls = commands.flatMap((command): readonly ScriptBlock[] => {
    const tool = offered.get(command.tool);
    return tool === undefined ? [] : [{ type: "tool_use", name: command.tool, input: inputFor(command, tool) }];
  });
  const first = before.length === 0 ? [NOTICE] : [];
  const own = commands.length > 0 || (results.length > 0 && asked === "") ? [] : [answerText(asked, request, before)];
  const text = [...first, ...results, ...missing, ...own].join("\n\n");
  const thought =
    calls.length > 0 ? `${calls.length} command(s): I call the tools.` : "I answer from what is in my prompt.";
  return {
    content: [...thinkingBlock(request, thought), ...(text === "" ? [] : [{ type: "text", text } as const]), ...calls],
  };
};
