/**
 * Reading again what the view still shows (R6): whether an earlier result stands whole in what the model is sent, so that a note may take
 * the place of the same text. Pure; what is whole is told by rendering, by the code that renders the request.
 */
import type { LogRow } from "../protocol/messages.ts";
import { batchEnd } from "./batches.ts";
import { resultParts, stringOf, toolCalls, toolResults } from "./tool-blocks.ts";
import type { Renderer } from "./view.ts";
import { contains, type ViewState } from "./view-state.ts";

/** A read that has been made once more. */
export interface RepeatedRead {
  readonly tool: string;
  readonly path: string;
  /** What the tool answers now. */
  readonly text: string;
  /** What another call of the tool was about; undefined where its input does not tell. */
  readonly pathOf: (inputText: string) => string | undefined;
}

/** Where the same text stands. */
export interface EarlierResult {
  readonly callId: string;
  /** The message that holds it. */
  readonly seq: number;
}

/**
 * What a repeated read is answered with. A later compaction may take the earlier result and leave this note, so it says how to get the text
 * again, and that always holds: a note is never whole, and never follows a note.
 */
export const unchangedNote = (path: string, { callId, seq }: EarlierResult): string =>
  `${path} is unchanged since you last read it: the text is that of the result of call ${callId}, message ${seq}. If you do not see it there any more, read the file once more with the same input: then it is given whole.`;

/** A result as a message shows it, where it is one text and nothing else. */
const shownText = (content: string, callId: string): string | undefined => {
  const body = toolResults(content).find((block) => block.callId === callId)?.body;
  if (body == null) return undefined;
  const [part, ...others] = resultParts(content, body);
  return part === undefined || part.text === null || others.length > 0 ? undefined : stringOf(content, part.text);
};

/** The result of a call as the view shows it; undefined where it shows none. */
const resultInView = (
  rows: readonly LogRow[],
  start: number,
  callId: string,
  view: ViewState,
  renderer: Pick<Renderer, "row">,
): { readonly seq: number; readonly text: string } | undefined => {
  for (const row of rows.slice(start + 1, batchEnd(rows, start))) {
    if (!row.content.includes(callId) || isLeftOut(row, view)) continue;
    const text = shownText(renderer.row(row, view).message.content, callId);
    if (text !== undefined) return { seq: row.seq, text };
  }
  return undefined;
};

const isLeftOut = ({ seq }: LogRow, view: ViewState): boolean =>
  contains(view.generation?.covered ?? [], seq) || contains(view.hidden, seq);

/**
 * Looks for an earlier result that is byte for byte what the tool answers now and that the view shows whole: not covered, hidden, clipped or
 * demoted; what was rewound is not among the rows (R6). The newest call about the path decides where its answer was a note: who asks
 * again in spite of it gets the text.
 * @param rows the loaded slice of the log, the calls that are being answered at its end
 * @param view as the newest request was rendered by
 * @returns null where the text has to be given
 */
export const unchangedSince = (
  rows: readonly LogRow[],
  view: ViewState,
  renderer: Pick<Renderer, "row">,
  { tool, path, text, pathOf }: RepeatedRead,
): EarlierResult | null => {
  for (let at = rows.length - 1; at >= 0; at--) {
    const row = rows[at];
    if (row === undefined || row.calls.length === 0 || !row.content.includes(tool) || isLeftOut(row, view)) continue;
    for (const { callId, name, body } of toolCalls(row.content).toReversed()) {
      if (name !== tool || body === null || pathOf(row.content.slice(body.start, body.end)) !== path) continue;
      const shown = resultInView(rows, at, callId, view, renderer);
      if (shown === undefined) continue;
      if (shown.text === text) return { callId, seq: shown.seq };
      if (isNote(shown.text, path)) return null;
    }
  }
  return null;
};

const [NOTE_START = ""] = unchangedNote("", { callId: "", seq: 0 }).split(":");

/** No page of a file begins so: its lines are numbered. */
const isNote = (text: string, path: string): boolean => text.startsWith(path + NOTE_START);
