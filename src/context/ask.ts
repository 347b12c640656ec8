/** Which rows are somebody's request, and which request is still being worked on (R2, C4). */
import { objectMembers } from "../protocol/json-text.ts";
import type { LogRow } from "../protocol/messages.ts";
import { blockTexts, blockType } from "./imported.ts";

/** The text of a text block. */
const textOf = (block: string): string => {
  const member = objectMembers(block).find(({ key }) => key === "text");
  return member === undefined ? "" : String(JSON.parse(block.slice(member.start, member.end)));
};

const saysSomething = (block: string): boolean => {
  const type = blockType(block);
  if (type === "tool_result") return false;
  return type !== "text" || textOf(block).trim() !== "";
};

/**
 * Whether a row is a request from outside (R2): a user's message or an event, with content that is neither blank nor only results of
 * tools. Rewind, retry, the rules of the tail, titles and counters all ask this one predicate.
 */
export const isUserOriginated = (row: LogRow): boolean =>
  (row.origin === "user" || row.origin === "event") && blockTexts(row.content).some(saysSomething);

/** The newest user-originated row, or undefined in a session without one (R7). */
export const liveAsk = (rows: readonly LogRow[]): LogRow | undefined => rows.findLast(isUserOriginated);

/**
 * Whether an answer stopped inside a tool that the provider runs itself (`pause_turn`, V6): it is sent back unchanged to go on, so it
 * is nobody's last word.
 */
export const isPaused = (row: LogRow): boolean => {
  if (row.origin !== "assistant" || row.calls.length > 0 || !row.content.includes('"server_tool_use"')) return false;
  const last = blockTexts(row.content).at(-1);
  return last !== undefined && blockType(last) !== "text";
};

/** Whether a turn ends with this row: an answer that asks for no tool. */
export const endsTurn = (row: LogRow): boolean =>
  row.origin === "assistant" && row.calls.length === 0 && !isPaused(row);

/** The request whose turn is still open: the newest one, unless an answer without calls stands after it (C4). */
export const openAsk = (rows: readonly LogRow[]): LogRow | undefined => {
  const newest = rows.findLast((row) => endsTurn(row) || isUserOriginated(row));
  return newest === undefined || endsTurn(newest) ? undefined : newest;
};

/** How a medium is named where only text can stand. */
const label = (block: string): string => `[${blockType(block)}]`;

/** What a request says: its texts as they are, a label for each medium, a blank line between. Results beside them are left out. */
export const askText = (row: LogRow): string =>
  blockTexts(row.content)
    .filter(saysSomething)
    .map((block) => (blockType(block) === "text" ? textOf(block) : label(block)))
    .join("\n\n");
