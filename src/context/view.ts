/** From log rows to the messages of a request: the only place where stored messages become wire messages (V1, V9). */
import { objectMembers } from "../protocol/json-text.ts";
import type { LogRow, ViewMessage } from "../protocol/messages.ts";
import { alternate } from "./alternation.ts";
import { clipContent } from "./clip.ts";
import { demoteContent } from "./demote.ts";
import { mediaItems } from "./estimate-request.ts";
import { handoffMessage } from "./handoff.ts";
import { blockTexts, blockType, joinBlocks, portable } from "./imported.ts";
import { markSkills } from "./skills.ts";
import { contains, type ViewState } from "./view-state.ts";

const THINKING_TYPES: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);

/** Stands where a message lost all its blocks: an empty message would be refused (V5). */
const PLACEHOLDER = '[{"type":"text","text":"(no text)"}]';

/** What a call gets that nobody answered: neutral, because nobody knows what it did (C3). */
const stubResult = (callId: string): string =>
  `{"type":"tool_result","tool_use_id":${JSON.stringify(callId)},"content":"No result was recorded for this call.","is_error":true}`;

const keeping = (content: string, keeps: (block: string) => boolean): string => {
  const blocks = blockTexts(content);
  const kept = blocks.filter(keeps);
  if (kept.length === blocks.length) return content;
  return kept.length === 0 ? PLACEHOLDER : joinBlocks(kept);
};

const withoutThinking = (content: string): string =>
  content.includes("thinking") ? keeping(content, (block) => !THINKING_TYPES.has(blockType(block))) : content;

/** How thinking without a signature is stored: the reasoning of a chat completions server. */
const UNSIGNED = '"signature":""';

const isUnsigned = (block: string): boolean => blockType(block) === "thinking" && block.includes(UNSIGNED);

/**
 * The thinking that a provider takes back: signed blocks where it signs them; else the reasoning of an answer with calls, whose exchange
 * may go on (V5). What another provider thought is left out.
 */
const ownThinking = (content: string, thinking: "signed" | "unsigned"): string => {
  if (thinking === "signed")
    return content.includes(UNSIGNED) ? keeping(content, (block) => !isUnsigned(block)) : content;
  if (!content.includes("thinking")) return content;
  if (!blockTexts(content).some((block) => blockType(block) === "tool_use")) return withoutThinking(content);
  return keeping(content, (block) => !THINKING_TYPES.has(blockType(block)) || isUnsigned(block));
};

const isImported = (row: LogRow): boolean => row.runId === null;

export interface ViewOptions {
  readonly sessionId: string;
  /** Tokens of a text, by which clipping measures. */
  readonly estimateTokens: (text: string) => number;
  /**
   * Tokens of a message as it is sent.
   * @param rowTokens `LogRow.tokens`, where the message is a row unchanged, so that it need not be measured again
   */
  readonly messageTokens: (message: ViewMessage, rowTokens?: number) => number;
  /** Whether the provider's template enforces alternating roles (R8). */
  readonly strictAlternation?: boolean;
  /** What thinking the provider takes back: what it signed, which is the default, or reasoning that nobody signs (V5). */
  readonly thinking?: "signed" | "unsigned";
}

/** A message, and what sending it costs. */
export interface Sized {
  readonly message: ViewMessage;
  readonly tokens: number;
  /** As sent, media inlined. */
  readonly bytes: number;
  readonly mediaItems: number;
}

/** A view, and what sending it costs. */
export interface SizedView {
  readonly messages: readonly ViewMessage[];
  readonly tokens: number;
  readonly bytes: number;
  readonly mediaItems: number;
}

const encoder = new TextEncoder();
const utf8 = (text: string): number => encoder.encode(text).byteLength;

const renderRow = (row: LogRow, view: ViewState, options: ViewOptions): ViewMessage => {
  const own = isImported(row) ? portable(row.content) : row.content;
  const bound = row.role === "assistant" && (isImported(row) || row.seq < view.thinkingFloor);
  const thought =
    row.role !== "assistant" ? own : bound ? withoutThinking(own) : ownThinking(own, options.thinking ?? "signed");
  const skills = view.skills.filter(({ seq }) => seq === row.seq);
  const marked = markSkills(thought, skills);
  // A note on a demoted result tells the size of the whole, so it is made first; it is too short to be clipped.
  const demoted = view.demoted.length === 0 ? marked : demoteContent(marked, new Set(view.demoted), row.seq);
  const content =
    row.seq < view.clippedBefore
      ? clipContent(
          demoted,
          row.role,
          view.clipTokens,
          options.estimateTokens,
          new Set(skills.map((each) => each.callId)),
        )
      : demoted;
  return { role: row.role, content: content === "[]" ? PLACEHOLDER : content, media: row.media };
};

/** What of a view state a row's rendering depends on: rows with equal keys render equal bytes. */
const renderKey = (row: LogRow, view: ViewState): string =>
  `${row.seq < view.clippedBefore ? view.clipTokens : 0}/${row.seq < view.thinkingFloor}/${row.role === "user" ? resultsKey(row, view) : ""}`;

const resultsKey = (row: LogRow, { demoted, skills }: ViewState): string =>
  `${demoted.join()}/${skills.flatMap(({ seq, callId, shown }) => (seq === row.seq ? [`${callId} ${shown}`] : [])).join()}`;

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
export interface Renderer {
  /** The messages of a view: the handoff, then what the state shows of the rows. */
  messages(rows: readonly LogRow[], view: ViewState): readonly ViewMessage[];
  measure(rows: readonly LogRow[], view: ViewState): SizedView;
  /** One row as a view shows it. */
  row(row: LogRow, view: ViewState): Sized;
}

/**
 * A renderer for one run. Same rows and state, same bytes; where nothing has to change, the stored text itself is passed on unread.
 * Rows that the state covers or hides are left out; an unanswered call gets a stub (C3).
 */
export const createRenderer = (options: ViewOptions): Renderer => {
  const rendered = new WeakMap<LogRow, { readonly key: string; readonly sized: Sized }>();

  const sizedOf = (message: ViewMessage, bytes: number, rowTokens?: number): Sized => ({
    message,
    tokens: options.messageTokens(message, rowTokens),
    bytes,
    mediaItems: mediaItems(message.content),
  });

  const row = (given: LogRow, view: ViewState): Sized => {
    const key = renderKey(given, view);
    const known = rendered.get(given);
    if (known?.key === key) return known.sized;
    const message = renderRow(given, view, options);
    const sized =
      message.content === given.content
        ? sizedOf(message, given.bytes, given.tokens)
        : // What the row's media weigh stays; only the text around them changes.
          sizedOf(message, utf8(message.content) + Math.max(0, given.bytes - utf8(given.content)));
    rendered.set(given, { key, sized });
    return sized;
  };

  const made = (message: ViewMessage): Sized => sizedOf(message, utf8(message.content));

  const handoffs = new WeakMap<ViewState, { readonly sized: Sized | null }>();
  const handoffOf = (view: ViewState): Sized | null => {
    const known = handoffs.get(view);
    if (known !== undefined) return known.sized;
    const message = handoffMessage(view, options.sessionId);
    const sized = message === null ? null : made(message);
    handoffs.set(view, { sized });
    return sized;
  };

  const assemble = (rows: readonly LogRow[], view: ViewState): readonly Sized[] => {
    const handoff = handoffOf(view);
    const shown: Sized[] = handoff === null ? [] : [handoff];
    const covered = view.generation?.covered ?? [];
    let pending: readonly string[] = [];
    for (const each of rows) {
      if (contains(covered, each.seq) || contains(view.hidden, each.seq)) continue;
      const sized = row(each, view);
      const done = pending.length === 0 ? undefined : answered(each);
      const missing = pending.filter((id) => done?.has(id) !== true);
      if (missing.length === 0) shown.push(sized);
      else if (sized.message.role === "user") shown.push(made(answerWithStubs(missing, sized.message)));
      else shown.push(made(answerWithStubs(missing, undefined)), sized);
      pending = each.calls;
    }
    if (pending.length > 0) shown.push(made(answerWithStubs(pending, undefined)));
    return options.strictAlternation === true ? inTurn(shown, view.generation?.pinned != null) : shown;
  };

  /** The messages so that roles alternate as a template counts them (R8); what is added or split is measured anew. */
  const inTurn = (shown: readonly Sized[], drivesAlone: boolean): readonly Sized[] => {
    const messages = shown.map(({ message }) => message);
    const known = new Map(shown.map((sized) => [sized.message, sized]));
    const mediaBytes = new Map(
      shown.map(({ message, bytes }) => [message.media, Math.max(0, bytes - utf8(message.content))]),
    );
    return alternate(messages, drivesAlone).map((message) => {
      const whole = known.get(message);
      if (whole !== undefined) return whole;
      const part = made(message);
      return { ...part, bytes: part.bytes + (message.media.length > 0 ? (mediaBytes.get(message.media) ?? 0) : 0) };
    });
  };

  /** The newest assembly: a step asks for the same view several times. */
  let last: { readonly of: readonly unknown[]; readonly shown: readonly Sized[] } | undefined;
  const parts = (rows: readonly LogRow[], view: ViewState): readonly Sized[] => {
    // A run's rows only ever grow at their end.
    const of = [rows, rows.length, rows.at(-1), view];
    if (last === undefined || of.some((value, index) => value !== last?.of[index]))
      last = { of, shown: assemble(rows, view) };
    return last.shown;
  };

  return {
    row,
    messages: (rows, view) => parts(rows, view).map(({ message }) => message),
    measure: (rows, view) => {
      const all = parts(rows, view);
      const sum = (of: (sized: Sized) => number): number => all.reduce((total, sized) => total + of(sized), 0);
      return {
        messages: all.map(({ message }) => message),
        tokens: sum(({ tokens }) => tokens),
        bytes: sum(({ bytes }) => bytes),
        mediaItems: sum((sized) => sized.mediaItems),
      };
    },
  };
};

/** Whether a view asks for an answer: a handoff alone is background and never drives a call (R1); an ask that it restates does. */
export const drivesCall = (messages: readonly ViewMessage[], view: ViewState): boolean =>
  view.generation?.pinned != null || messages.some((message) => message.handoff !== true || message.merged === true);
