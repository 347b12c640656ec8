/** Reads rows for their sections (S2): the user's words, answers, files, todos and identifiers. */

import type { Seq } from "../protocol/ids.ts";
import { isRecord } from "../protocol/is-record.ts";
import type { LogRow, Origin } from "../protocol/messages.ts";
import { MAX_TODOS } from "../protocol/middleware.ts";
import { redact, redactJson, withoutMarks } from "../protocol/redact.ts";
import { type IndexedIdentifier, type Place, type TallyMap, tallied, tally } from "./identifier-index.ts";
import { findConstraints, findIdentifiers, type WordCache } from "./identifiers.ts";
import { type Answer, askedBy, closingQuestion } from "./questions.ts";
import { eachText, type RowPart, rowParts } from "./row-parts.ts";
import { type TouchedFile, touchedAgain, touchedBy } from "./touched-files.ts";

export interface UserMessage {
  readonly seq: Seq;
  /** `event` payloads are data and never called a user's words (R7). */
  readonly origin: Extract<Origin, "user" | "event">;
  /** Verbatim but for secrets; cut in the middle where longer than `MAX_USER_MESSAGE_CHARS`. */
  readonly text: string;
}

export type TodoStatus = "completed" | "in_progress" | "pending";

export interface TodoList {
  readonly seq: Seq;
  readonly items: readonly { readonly content: string; readonly status: TodoStatus }[];
}

const MAX_USER_MESSAGE_CHARS = 12_000;
const MAX_QUESTION_CHARS = 500;
const MAX_ANSWER_CHARS = 2_000;
const MAX_TODO_CHARS = 300;

const clipped = (text: string, maxChars: number): string => {
  if (text.length <= maxChars) return text;
  const half = Math.floor(maxChars / 2);
  return [
    text.slice(0, half).toWellFormed(),
    ` [... ${text.length - 2 * half} characters of this message left out ...] `,
    text.slice(-half).toWellFormed(),
  ].join("");
};

const isStatus = (value: unknown): value is TodoStatus =>
  value === "completed" || value === "in_progress" || value === "pending";

const todosOf = (name: string, input: unknown, at: Seq): TodoList | null => {
  if (!/^(?:write_?todos|todo_?write)$/i.test(name) || !isRecord(input) || !Array.isArray(input["todos"])) return null;
  const items = input["todos"].flatMap((item: unknown) =>
    isRecord(item) && typeof item["content"] === "string" && isStatus(item["status"])
      ? [{ content: item["content"].slice(0, MAX_TODO_CHARS).toWellFormed(), status: item["status"] }]
      : [],
  );
  return { seq: at, items: items.slice(0, MAX_TODOS) };
};

/** What rows hold, in their order, before it is bounded. */
export interface RowReading {
  readonly users: readonly UserMessage[];
  readonly answers: readonly Answer[];
  readonly files: readonly TouchedFile[];
  readonly todos: TodoList | null;
  readonly identifiers: readonly IndexedIdentifier[];
  /** Characters of text, media and thinking left out. */
  readonly sourceChars: number;
}

/**
 * Reads rows once, in the order of their seq; secrets are taken out before anything looks at a text (S6).
 * @throws SyntaxError if a row's content is not JSON, which the log never holds
 */
export const readRows = (rows: readonly LogRow[]): RowReading => {
  const users: UserMessage[] = [];
  const answers: Answer[] = [];
  const files = new Map<string, TouchedFile>();
  const index: TallyMap = new Map();
  const words: WordCache = new Map();
  const asked = new Map<string, string>();
  let sourceChars = 0;
  let todos: TodoList | null = null;
  let openQuestion: string | null = null;

  const find = (text: string, at: Seq, place: Place): void => {
    sourceChars += text.length;
    findIdentifiers(withoutMarks(text), words, (found, kind) => tally(index, found, kind, at, place));
  };

  const addAnswer = (at: Seq, via: Answer["via"], question: string, answer: string): void => {
    if (answer.trim() === "") return;
    answers.push({
      seq: at,
      question: clipped(question, MAX_QUESTION_CHARS),
      answer: clipped(answer, MAX_ANSWER_CHARS),
      via,
    });
  };

  const readCall = (at: Seq, { id, name, input }: Extract<RowPart, { kind: "call" }>): void => {
    // Whole, before anything is cut: half a secret is not recognised.
    const safe = redactJson(input);
    const list = todosOf(name, safe, at);
    todos = list ?? todos;
    eachText(safe, (text, key) => {
      // The states of a todo list are words of ours and name nothing.
      if (list === null || key !== "status") find(text, at, "input");
    });
    const touched = touchedBy(name, safe);
    if (touched !== null) {
      const { path, operation } = touched;
      files.set(path, touchedAgain(files.get(path), { path, operation, lastSeq: at }));
    }
    const question = askedBy(name, safe);
    if (question !== null) asked.set(id, question);
  };

  const readResult = (at: Seq, { callId, texts }: Extract<RowPart, { kind: "result" }>): void => {
    const safe = texts.map((text) => redact(text).text);
    for (const text of safe) find(text, at, "result");
    const question = asked.get(callId);
    if (question !== undefined) addAnswer(at, "tool", question, safe.join("\n"));
  };

  const readUser = (at: Seq, origin: UserMessage["origin"], text: string): void => {
    if (text.trim() === "") return;
    users.push({ seq: at, origin, text: clipped(text, MAX_USER_MESSAGE_CHARS) });
    if (origin === "user") {
      for (const constraint of findConstraints(text)) tally(index, constraint, "constraint", at, "said");
      if (openQuestion !== null) addAnswer(at, "text", openQuestion, text);
    }
    openQuestion = null;
  };

  const readRow = (row: LogRow): void => {
    const said: string[] = [];
    for (const part of rowParts(row)) {
      if (part.kind === "call") readCall(row.seq, part);
      else if (part.kind === "result") readResult(row.seq, part);
      else {
        const text = redact(part.text).text;
        if (text.trim() !== "") said.push(text);
        find(text, row.seq, "said");
      }
    }
    if (row.role === "assistant") openQuestion = closingQuestion(said.join("\n"));
    else if (row.origin === "user" || row.origin === "event") readUser(row.seq, row.origin, said.join("\n"));
  };

  // Injected rows are ours (handoffs, notes), not the conversation: sections about sections would nest (S1).
  for (const row of rows) if (row.origin !== "injected") readRow(row);
  return { users, answers, files: [...files.values()], todos, identifiers: tallied(index), sourceChars };
};
