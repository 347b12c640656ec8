/** From log rows to the messages of a request: the only place where stored messages become wire messages (V1, V9). */
import { objectMembers } from "../protocol/json-text.ts";
import type { LogRow, ViewMessage } from "../protocol/messages.ts";
import { blockTexts, blockType, joinBlocks, portable } from "./imported.ts";

export interface ViewSettings {
  /** Assistant rows with a lower seq are rendered without thinking (V5). Rows that were imported always are: what they are bound to is elsewhere. */
  readonly thinkingFloor: number;
}

const THINKING_TYPES: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);

/** Stands where a message lost all its blocks: an empty message would be refused (V5). */
const PLACEHOLDER = '[{"type":"text","text":"(no text)"}]';

/** What a call gets that nobody answered: neutral, because nobody knows what it did (C3). */
const stubResult = (callId: string): string =>
  `{"type":"tool_result","tool_use_id":${JSON.stringify(callId)},"content":"No result was recorded for this call.","is_error":true}`;

const withoutThinking = (content: string): string => {
  if (!content.includes("thinking")) return content;
  const blocks = blockTexts(content);
  const kept = blocks.filter((block) => !THINKING_TYPES.has(blockType(block)));
  if (kept.length === blocks.length) return content;
  return kept.length === 0 ? PLACEHOLDER : joinBlocks(kept);
};

const isImported = (row: LogRow): boolean => row.runId === null;

const render = (row: LogRow, settings: ViewSettings): ViewMessage => {
  const own = isImported(row) ? portable(row.content) : row.content;
  const bound = row.role === "assistant" && (isImported(row) || row.seq < settings.thinkingFloor);
  const content = bound ? withoutThinking(own) : own;
  return { role: row.role, content: content === "[]" ? PLACEHOLDER : content, media: row.media };
};

/** The ids that a message's results answer. */
const answered = (message: LogRow | undefined): ReadonlySet<string> => {
  if (message === undefined || message.role !== "user" || !message.content.includes('"tool_result"')) return new Set();
  const ids = blockTexts(message.content).map((block) => {
    const id = objectMembers(block).find((member) => member.key === "tool_use_id");
    return id === undefined ? "" : String(JSON.parse(block.slice(id.start, id.end)));
  });
  return new Set(ids);
};

/** Puts stubs before everything else in the message that follows, or makes that message (results come first, C7). */
const answerWithStubs = (missing: readonly string[], next: ViewMessage | undefined): ViewMessage => {
  const stubs = missing.map(stubResult);
  if (next === undefined || next.role !== "user") return { role: "user", content: joinBlocks(stubs), media: [] };
  return { ...next, content: joinBlocks([...stubs, ...blockTexts(next.content)]) };
};

/**
 * Renders the log as the messages of a request. Same rows and settings, same bytes; where nothing has to change, the stored text
 * itself is passed on unread.
 * @param rows ascending by seq; the last batch may be open only when the caller is about to answer it
 */
export const renderView = (rows: readonly LogRow[], settings: ViewSettings): readonly ViewMessage[] => {
  const view: ViewMessage[] = [];
  let pending: readonly string[] = [];
  for (const row of rows) {
    const message = render(row, settings);
    if (pending.length === 0) {
      view.push(message);
    } else {
      const done = answered(row);
      const missing = pending.filter((id) => !done.has(id));
      if (missing.length === 0) view.push(message);
      else if (message.role === "user") view.push(answerWithStubs(missing, message));
      else view.push(answerWithStubs(missing, undefined), message);
    }
    pending = row.calls;
  }
  if (pending.length > 0) view.push(answerWithStubs(pending, undefined));
  return view;
};
