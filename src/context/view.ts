/** From log rows to the messages of a request: the only place where stored messages become wire messages (V1, V9). */
import { objectMembers } from "../protocol/json-text.ts";
import type { LogRow, ViewMessage } from "../protocol/messages.ts";
import { clipContent } from "./clip.ts";
import { demoteContent } from "./demote.ts";
import { handoffMessage } from "./handoff.ts";
import { blockTexts, blockType, joinBlocks, portable } from "./imported.ts";
import { contains, type ViewState } from "./view-state.ts";

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

export interface ViewOptions {
  readonly sessionId: string;
  /** Tokens of a text, by which clipping measures. */
  readonly estimateTokens: (text: string) => number;
}

const renderRow = (row: LogRow, view: ViewState, options: ViewOptions): ViewMessage => {
  const own = isImported(row) ? portable(row.content) : row.content;
  const bound = row.role === "assistant" && (isImported(row) || row.seq < view.thinkingFloor);
  const thought = bound ? withoutThinking(own) : own;
  // A note on a demoted result tells the size of the whole, so it is made first; it is too short to be clipped.
  const demoted = view.demoted.length === 0 ? thought : demoteContent(thought, new Set(view.demoted), row.seq);
  const content =
    row.seq < view.clippedBefore ? clipContent(demoted, row.role, view.clipTokens, options.estimateTokens) : demoted;
  return { role: row.role, content: content === "[]" ? PLACEHOLDER : content, media: row.media };
};

/** What of a view state a row's rendering depends on: rows with equal keys render equal bytes. */
const renderKey = (row: LogRow, view: ViewState): string =>
  `${row.seq < view.clippedBefore ? view.clipTokens : 0}/${row.seq < view.thinkingFloor}/${row.role === "user" ? view.demoted.join() : ""}`;

/** The ids that a message's results answer. */
const answered = (message: LogRow): ReadonlySet<string> => {
  if (message.role !== "user" || !message.content.includes('"tool_result"')) return new Set();
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

/** Renders rows; keeps what it rendered, so that a row costs its work once however often the view is asked for. */
export type RenderView = (rows: readonly LogRow[], view: ViewState) => readonly ViewMessage[];

/**
 * A renderer for one run. Same rows and state, same bytes; where nothing has to change, the stored text itself is passed on unread.
 * Rows that the state covers or hides are left out; an unanswered call gets a stub (C3).
 */
export const createRenderer = (options: ViewOptions): RenderView => {
  const rendered = new WeakMap<LogRow, { readonly key: string; readonly message: ViewMessage }>();
  const render = (row: LogRow, view: ViewState): ViewMessage => {
    const key = renderKey(row, view);
    const known = rendered.get(row);
    if (known?.key === key) return known.message;
    const message = renderRow(row, view, options);
    rendered.set(row, { key, message });
    return message;
  };
  return (rows, view) => {
    const handoff = handoffMessage(view, options.sessionId);
    const messages: ViewMessage[] = handoff === null ? [] : [handoff];
    const covered = view.generation?.covered ?? [];
    let pending: readonly string[] = [];
    for (const row of rows) {
      if (contains(covered, row.seq) || contains(view.hidden, row.seq)) continue;
      const message = render(row, view);
      const done = pending.length === 0 ? undefined : answered(row);
      const missing = pending.filter((id) => done?.has(id) !== true);
      if (missing.length === 0) messages.push(message);
      else if (message.role === "user") messages.push(answerWithStubs(missing, message));
      else messages.push(answerWithStubs(missing, undefined), message);
      pending = row.calls;
    }
    if (pending.length > 0) messages.push(answerWithStubs(pending, undefined));
    return messages;
  };
};
