/**
 * The handoff: the user message that stands where covered rows were (S4). Pure and joined, never templated (S8); equal states render
 * equal bytes (V2), so every fixed word here belongs to a prefix version: to change one, add a version.
 */
import type { ViewMessage } from "../protocol/messages.ts";
import { skillMarker } from "./lost-skills.ts";
import { renderSections } from "./render-sections.ts";
import { lostInHidden } from "./skills.ts";
import {
  type Generation,
  type HistoryPointer,
  type PinnedAsk,
  rangesText,
  type SeqRange,
  type ViewState,
} from "./view-state.ts";

/** Append-only: a stored generation names the text it was made with, and must render the same for ever (S4). Version 1 is the first. */
export const PREFIXES: readonly string[] = [
  `[Handoff from earlier turns]
Earlier turns of this session were compacted to make room, and this message stands in their place. It is background for you, not an instruction, and nobody said it to you just now.
- Act only on what follows the end mark below. Work described before it was asked for earlier, and may be done, changed or given up since.
- Where tool results, or calls that have no result yet, follow this message, continue that exchange where it stands.
- Your tools, your memory and your other instructions remain in force as they are given to you now.
- Where a user says so (stop, undo, never mind, forget it), the earlier work that it is about has ended: do not take it up again.`,
  `[Handoff from earlier turns]
Earlier turns of this session were compacted to make room, and this message stands in their place. It is background for you, not an instruction, and nobody said it to you just now.
- Act only on what follows the end mark below. Work described before it was asked for earlier, and may be done, changed or given up since.
- Where tool results, or calls that have no result yet, follow this message, continue that exchange where it stands.
- Your tools, your memory (what your instructions hold of /memories/) and your other instructions remain in force as they are given to you now. Where this message differs from them, they are right: it tells of an earlier time.
- Where a user says so (stop, undo, never mind, forget it), the earlier work that it is about has ended: do not take it up again.`,
];

/** The version that new generations are made with. */
export const PREFIX_VERSION = PREFIXES.length;

/** A handoff without a generation (hidden rows alone) has no version on record, so it keeps this one. */
const UNRECORDED_PREFIX_VERSION = 1;

/** Ends the background; once in every handoff. */
export const END_MARK = "[End of the handoff. Act only on what follows.]";

/** Ends the restated ask, so that it can be told from what is added after it. */
const ASK_END = "[End of the restated request]";

const askHeading = (asked: number, asOf: number): string =>
  `[Request of message ${asked}, in progress as of message ${asOf}, restated word for word. Any later message of the user supersedes it.]`;

const ASK_HEADING =
  /\[Request of message \d+, in progress as of message \d+, restated word for word\. Any later message of the user supersedes it\.\]/;

/** What stands in the background for a mark that a message quoted: the real one must be the only one (S4). */
const QUOTED_MARK = "[end mark]";

/** What stands in the summary for the pinned ask, which is restated once (C4). */
const ASK_REFERENCE = "(the request that is restated below)";

/** A shorter ask ("go on") is part of other sentences; taking it out would damage them. */
const SHORTEST_UNIQUE_ASK = 20;

/** Where the history file of a session is. */
export const historyPath = (sessionId: string): string => `/conversation_history/${sessionId}.md`;

/** Removes every occurrence without patterns (S8). */
const replaced = (text: string, part: string, by: string): string => text.split(part).join(by);

const withoutMarks = (text: string): string => replaced(text, END_MARK, QUOTED_MARK);

const withoutAsk = (summary: string, pinned: PinnedAsk | null): string => {
  const ask = pinned?.text.trim() ?? "";
  return ask.length < SHORTEST_UNIQUE_ASK ? summary : replaced(summary, ask, ASK_REFERENCE);
};

const apiCall = (sessionId: string): string => `GET /v1/sessions/${sessionId}/messages?order=asc`;

const fileCalls = (path: string): readonly string[] => [
  `To find a detail (an id, a path, a name, a number): grep ${JSON.stringify({ pattern: "the text to find", path, output_mode: "content", context: 3 })}`,
  `To read: read_file ${JSON.stringify({ file_path: path, offset: 1, limit: 200 })}; its beginning is an index.`,
];

const historyText = (covered: readonly SeqRange[], history: HistoryPointer, sessionId: string): string => {
  const seqs = rangesText(covered);
  switch (history.kind) {
    case "file":
      return [
        "## Where the compacted messages can be read",
        `Messages ${seqs} are in ${history.path}, complete and in their own words. Look there before you guess or ask again.`,
        ...fileCalls(history.path),
      ].join("\n");
    case "api":
      return [
        "## Where the compacted messages can be read",
        `Messages ${seqs} are in the log of the session: ${apiCall(sessionId)}. Your file tools do not reach it; whoever runs this session does.`,
      ].join("\n");
    default: {
      const never: never = history;
      return never;
    }
  }
};

const hiddenText = (view: ViewState, sessionId: string): string =>
  [
    "## Messages that were left out",
    `Messages ${rangesText(view.hidden)} did not fit and are neither shown nor summarised here. They can be read in ${historyPath(sessionId)} as far as it holds them, and always through ${apiCall(sessionId)}.`,
    ...lostInHidden(view).map(({ name }) => `- ${skillMarker(name)}`),
  ].join("\n");

const lastCovered = (generation: Generation): number => generation.covered.at(-1)?.to ?? 0;

const askText = (generation: Generation, pinned: PinnedAsk): string =>
  [askHeading(pinned.seq, lastCovered(generation)), pinned.text, ASK_END].join("\n");

const summaryText = (generation: Generation): string => {
  const summary = withoutAsk(generation.summary, generation.pinned).trim();
  if (summary === "") return "";
  return [`## What was done and found, up to message ${lastCovered(generation)}`, summary].join("\n");
};

/** Requests that a view still shows although what was done for them is covered (section 11). */
export interface AnsweredRequests {
  readonly count: number;
  /** How the last of them begins. */
  readonly opening: string;
}

/** Without it, the words after the end mark would be taken for work to do. */
const answeredText = (answered: AnsweredRequests | null): string =>
  answered === null
    ? ""
    : [
        "## Earlier requests that stand below",
        `Requests are kept in their own words: ${answered.count} of those after the end mark, up to and including the one that begins ${JSON.stringify(answered.opening)}, were answered in their time, and what was done for them is told above. What they say still holds, but they are not to be carried out again.`,
      ].join("\n");

/**
 * What a generation says: summary, sections, where the rest can be read. Rendered once, when it is committed, and kept with it.
 * @param sessionId as the API shows it; part of the paths
 * @param answered requests that it leaves in view; null for none
 */
export const renderGeneration = (
  generation: Generation,
  sessionId: string,
  answered: AnsweredRequests | null = null,
): string =>
  [
    summaryText(generation),
    renderSections(generation.sections, { excludeSeq: generation.pinned?.seq ?? null }),
    historyText(generation.covered, generation.history, sessionId),
    answeredText(answered),
  ]
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .join("\n\n");

/**
 * The text of the handoff of a view: prefix, summary, sections, where the rest can be read, end mark, pinned ask (S4, C4).
 * @param sessionId as the API shows it; part of the paths
 * @returns null when the view has neither a generation nor hidden rows
 */
export const renderHandoff = (view: ViewState, sessionId: string): string | null => {
  const { generation, hidden } = view;
  if (generation === null && hidden.length === 0) return null;
  const version = generation?.prefixVersion ?? UNRECORDED_PREFIX_VERSION;
  const background = [
    generation === null ? "" : (generation.rendered ?? renderGeneration(generation, sessionId)),
    hidden.length === 0 ? "" : hiddenText(view, sessionId),
  ];
  const parts = [
    PREFIXES[version - 1] ?? PREFIXES[0] ?? "",
    ...background.map((part) => withoutMarks(part.trim())).filter((part) => part !== ""),
    END_MARK,
  ];
  if (generation !== null && generation.pinned !== null) parts.push(askText(generation, generation.pinned));
  return parts.join("\n\n").toWellFormed();
};

/**
 * The handoff as the first message of a request.
 * @returns null when the view has none
 */
export const handoffMessage = (view: ViewState, sessionId: string): ViewMessage | null => {
  const text = renderHandoff(view, sessionId);
  if (text === null) return null;
  return { role: "user", content: JSON.stringify([{ type: "text", text }]), media: [], handoff: true };
};

/** A prefix with any white space between its words: a model that quotes it may wrap its lines anew. */
const loose = (prefix: string): RegExp =>
  new RegExp(
    prefix
      .split(/\s+/)
      .map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"))
      .join("\\s+"),
    "gu",
  );

/** Stands where a part was taken out: no mark has a line break, so none can close around it. */
const SEAM = "\n";

const withoutRestatedAsk = (text: string): string => {
  const heading = ASK_HEADING.exec(text);
  if (heading === null) return text;
  const end = text.indexOf(ASK_END, heading.index);
  const after = end < 0 ? heading.index + heading[0].length : end + ASK_END.length;
  return [text.slice(0, heading.index), text.slice(after)].join(SEAM);
};

const stripOnce = (text: string, prefixes: readonly RegExp[]): string => {
  let rest = text;
  for (const prefix of prefixes) rest = rest.replace(prefix, SEAM);
  return replaced(replaced(withoutRestatedAsk(rest), END_MARK, SEAM), ASK_END, SEAM);
};

/**
 * Takes what belongs to a handoff out of a text: prefixes of any version, end marks, restated asks. Summaries never nest (S1).
 * @returns the text trimmed; it holds no end mark
 */
export const stripHandoff = (text: string): string => {
  const prefixes = PREFIXES.map(loose);
  let before = text;
  let after = stripOnce(before, prefixes);
  // A prefix may have closed around what was taken out.
  while (after !== before) {
    before = after;
    after = stripOnce(before, prefixes);
  }
  return after.trim();
};
