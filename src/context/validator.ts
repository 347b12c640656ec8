/**
 * The last look at the messages of a request before they are sent (C7): what the provider would refuse, on every retry, is found here.
 * Blocks are read where they stand in the text; their bodies are skipped.
 */
import { arrayElements, type Member, objectMembers, repairSurrogates, type Span } from "../protocol/json-text.ts";
import type { ContentText, ViewMessage } from "../protocol/messages.ts";
import { firstOutOfTurn } from "./alternation.ts";
import { type Problem, problemWords } from "./problems.ts";
import { memberNamed } from "./tool-blocks.ts";

/** The request that the view must show (C4): a row of its own, or text restated in the handoff. */
export type ExpectedAsk =
  | { readonly kind: "row"; readonly content: ContentText }
  | { readonly kind: "pinned"; readonly text: string };

export interface ValidatorOptions {
  /** The last message is an answer that paused in a tool of the provider's (V6). */
  readonly pauseTurn?: boolean;
  readonly liveAsk?: ExpectedAsk;
  /** The provider's template enforces alternating roles (R8). */
  readonly strictAlternation?: boolean;
  /** Cache marks that are left for messages: 4 less those of the system blocks. */
  readonly maxMarks: number;
}

const BACKSLASH = 0x5c;
const QUOTE = 0x22;

/** A JSON string's value. Without an escape it stands there as it is. */
const stringAt = (text: string, span: Span | undefined): string => {
  if (span === undefined) return "";
  const inner = text.slice(span.start + 1, span.end - 1);
  return inner.includes("\\") ? String(JSON.parse(text.slice(span.start, span.end))) : inner;
};

/** Whether a JSON string is blank; most are known by their first character. */
const isBlankAt = (text: string, span: Span | undefined): boolean => {
  if (span === undefined) return true;
  const first = text.charCodeAt(span.start + 1);
  if (first > 0x20 && first < 0x7f && first !== BACKSLASH && first !== QUOTE) return false;
  return stringAt(text, span).trim() === "";
};

/** What of a message matters to its neighbours. */
interface Scan {
  readonly calls: string[];
  readonly results: string[];
  readonly serverCalls: string[];
  readonly serverResults: string[];
  marks: number;
}

/** Whether a result's own blocks hold a blank text. */
const hasBlankText = (text: string, content: Member | undefined): boolean => {
  if (content === undefined || text.charAt(content.start) !== "[") return false;
  return arrayElements(text, content.start).some(({ start }) => {
    const members = objectMembers(text, start);
    return stringAt(text, memberNamed(members, "type")) === "text" && isBlankAt(text, memberNamed(members, "text"));
  });
};

/** Blocks that the provider refuses a mark on. */
const UNMARKABLE: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);

/** The types of calls that the provider answers itself, in the same answer. */
const SERVER_CALLS: ReadonlySet<string> = new Set(["server_tool_use", "mcp_tool_use"]);

const scanBlocks = (message: ViewMessage, index: number, found: Scan, problems: Problem[]): void => {
  const { content } = message;
  const blocks = arrayElements(content);
  if (blocks.length === 0) problems.push({ kind: "empty_message", index });
  const mayHoldMarks = content.includes('"cache_control"');
  let otherSeen = false;
  for (const [position, { start }] of blocks.entries()) {
    const members = objectMembers(content, start);
    const idOf = (key: string): string => stringAt(content, memberNamed(members, key));
    const type = idOf("type");
    const isBlank = type === "text" && isBlankAt(content, memberNamed(members, "text"));
    const isResult = type === "tool_result";
    if (isBlank || (isResult && hasBlankText(content, memberNamed(members, "content"))))
      problems.push({ kind: "blank_text", index });

    const isMarked =
      (mayHoldMarks && memberNamed(members, "cache_control") !== undefined) ||
      (message.cacheMark === true && position === blocks.length - 1);
    if (isMarked) found.marks++;
    if (isMarked && (isBlank || UNMARKABLE.has(type))) problems.push({ kind: "bad_mark", index });

    if (isResult) {
      const id = idOf("tool_use_id");
      found.results.push(id);
      if (otherSeen) problems.push({ kind: "late_result", index, id });
      continue;
    }
    otherSeen = true;
    if (type === "tool_use") found.calls.push(idOf("id"));
    else if (SERVER_CALLS.has(type)) found.serverCalls.push(idOf("id"));
    else if (type.endsWith("_tool_result")) found.serverResults.push(idOf("tool_use_id"));
  }
};

const scan = (message: ViewMessage, index: number, problems: Problem[]): Scan => {
  const found: Scan = { calls: [], results: [], serverCalls: [], serverResults: [], marks: 0 };
  if (repairSurrogates(message.content) !== message.content) problems.push({ kind: "bad_unicode", index });
  try {
    scanBlocks(message, index, found, problems);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    problems.push({ kind: "malformed", index });
  }
  return found;
};

/** Every result answers a call of the message directly before, every call is answered directly after. */
const checkPairs = (messages: readonly ViewMessage[], scans: readonly Scan[], problems: Problem[]): void => {
  const seen = new Set<string>();
  for (const [index, { calls, results, serverCalls }] of scans.entries()) {
    for (const id of [...calls, ...serverCalls]) {
      if (seen.has(id)) problems.push({ kind: "duplicate_call", index, id });
      seen.add(id);
      if (messages[index]?.role === "user") problems.push({ kind: "misplaced_call", index, id });
    }
    const asked =
      messages[index]?.role === "user" && messages[index - 1]?.role === "assistant" ? scans[index - 1] : undefined;
    const answered = new Set<string>();
    for (const id of results) {
      if (asked?.calls.includes(id) !== true) problems.push({ kind: "unexpected_result", index, id });
      if (answered.has(id)) problems.push({ kind: "duplicate_result", index, id });
      answered.add(id);
    }
    const next = messages[index + 1]?.role === "user" ? scans[index + 1]?.results : undefined;
    for (const id of calls) if (next?.includes(id) !== true) problems.push({ kind: "unanswered_call", index, id });
  }
};

/** A provider's own call has its result in the same run of assistant messages, after it; one in a paused answer is still running. */
const checkServerPairs = (
  messages: readonly ViewMessage[],
  scans: readonly Scan[],
  isPaused: boolean,
  problems: Problem[],
): void => {
  let open = new Map<string, number>();
  const close = (): void => {
    for (const [id, index] of open) problems.push({ kind: "unanswered_server_call", index, id });
    open = new Map();
  };
  for (const [index, { serverCalls, serverResults }] of scans.entries()) {
    if (messages[index]?.role === "user") close();
    for (const id of serverCalls) open.set(id, index);
    for (const id of serverResults)
      if (!open.delete(id)) problems.push({ kind: "unexpected_server_result", index, id });
  }
  if (!isPaused) close();
};

const checkEnds = (messages: readonly ViewMessage[], isPaused: boolean, problems: Problem[]): void => {
  const index = messages.length - 1;
  if (messages[0]?.role !== "user") problems.push({ kind: "first_not_user", index: 0 });
  const last = messages[index]?.role;
  if (isPaused && last !== "assistant") problems.push({ kind: "last_not_assistant", index });
  if (!isPaused && last !== "user") problems.push({ kind: "last_not_user", index });
};

/** The texts of a message's text blocks. */
const textsOf = (content: ContentText): readonly string[] =>
  arrayElements(content)
    .map(({ start }) => objectMembers(content, start))
    .filter((members) => stringAt(content, memberNamed(members, "type")) === "text")
    .map((members) => stringAt(content, memberNamed(members, "text")));

/** Whether a user message shows the ask: its row as it is or reworked for the wire, or its text restated. */
const shows = (message: ViewMessage, ask: ExpectedAsk): boolean => {
  if (message.role !== "user") return false;
  if (ask.kind === "row" && message.content === ask.content) return true;
  const shown = textsOf(message.content).join("\n");
  return ask.kind === "row"
    ? textsOf(ask.content).every((text) => shown.includes(text))
    : message.handoff === true && shown.includes(ask.text);
};

/**
 * Looks for everything that the provider would refuse or that would lose the request in progress (C7). Linear in the messages' text,
 * of which only block members are read. Consecutive messages of one role pass, since the API merges them, except between a call and
 * its results, and where a template counts roles (R8).
 * @returns the problems, none for a request that may be sent
 */
export const validateMessages = (messages: readonly ViewMessage[], options: ValidatorOptions): readonly Problem[] => {
  if (messages.length === 0) return [{ kind: "no_messages", index: 0 }];
  const problems: Problem[] = [];
  const isPaused = options.pauseTurn === true;
  const scans = messages.map((message, index) => scan(message, index, problems));
  checkEnds(messages, isPaused, problems);
  checkPairs(messages, scans, problems);
  checkServerPairs(messages, scans, isPaused, problems);
  if (options.strictAlternation === true && problems.every(({ kind }) => kind !== "malformed")) {
    const index = firstOutOfTurn(messages);
    if (index !== undefined) problems.push({ kind: "out_of_turn", index });
  }

  const marks = scans.reduce((sum, found) => sum + found.marks, 0);
  if (marks > options.maxMarks) problems.push({ kind: "too_many_marks", index: messages.length - 1, marks });
  for (const [nth, index] of messages.flatMap((message, at) => (message.handoff === true ? [at] : [])).entries())
    if (nth > 0) problems.push({ kind: "second_handoff", index });

  const { liveAsk } = options;
  if (liveAsk !== undefined && problems.every(({ kind }) => kind !== "malformed")) {
    // The newest message that shows it is near the end, so most of the others are never read for this.
    if (messages.findLastIndex((message) => shows(message, liveAsk)) < 0)
      problems.push({ kind: "no_live_ask", index: messages.length - 1 });
  }
  return problems;
};

/**
 * What keeps messages from being sent, in words (C7). An answer at their end is one that paused (V6).
 * @param strictAlternation the provider's template enforces alternating roles (R8)
 */
export const problemsOf = (
  messages: readonly ViewMessage[],
  maxMarks: number,
  strictAlternation: boolean,
): readonly string[] =>
  validateMessages(messages, {
    maxMarks,
    pauseTurn: messages.at(-1)?.role === "assistant",
    strictAlternation,
  }).map(problemWords);
