/** The sections as the handoff shows them (S2, S3): descriptive headings in the past tense, each identifier with its kind and seq. */
import type { Seq } from "../protocol/ids.ts";
import { estimateTokens } from "./estimate.ts";
import { familiesOf, type IdentifierFamily, KIND_PATTERN } from "./identifier-families.ts";
import type { IndexedIdentifier } from "./identifier-index.ts";
import type { IdentifierKind } from "./identifiers.ts";
import { skillMarker } from "./lost-skills.ts";
import type { Answer } from "./questions.ts";
import type { TodoStatus, UserMessage } from "./read-rows.ts";
import type { SectionBudgets } from "./section-budgets.ts";
import type { MessageOpening, Sections } from "./sections.ts";
import type { FileOperation } from "./touched-files.ts";

export interface RenderOptions {
  /** The pinned ask, restated elsewhere (C4). */
  readonly excludeSeq?: Seq | null;
  /** Default: those that the sections were made with, so that a stored generation renders the same for ever (V2). */
  readonly budgets?: SectionBudgets;
}

/** Takes items in order until one does not fit. */
const within = <Item>(items: readonly Item[], line: (item: Item) => string, budgetTokens: number): readonly Item[] => {
  let left = budgetTokens;
  const taken: Item[] = [];
  for (const item of items) {
    left -= estimateTokens(line(item)) + 1;
    if (left < 0) break;
    taken.push(item);
  }
  return taken;
};

const newestFirst = <Item extends { readonly seq: Seq }>(items: readonly Item[]): readonly Item[] =>
  [...items].sort((a, b) => b.seq - a.seq);

/** A fence longer than any run of backticks in the text, so that no text can end its own block. */
const fenced = (text: string): string => {
  let longest = 2;
  for (const [run] of text.matchAll(/`{3,}/g)) longest = Math.max(longest, run.length);
  const fence = "`".repeat(longest + 1);
  return [fence, text, fence].join("\n");
};

const messageEntry = ({ seq, origin, text }: UserMessage): string => {
  if (origin === "event") return `- Message ${seq}, an event's payload (data, not a user's words):\n${fenced(text)}`;
  return text.includes("\n") ? `- Message ${seq}:\n${fenced(text)}` : `- Message ${seq}: ${text}`;
};

const openingEntry = ({ seq, origin, opening }: MessageOpening): string =>
  `- Message ${seq}${origin === "event" ? " (an event's payload, data)" : ""} began: ${opening}`;

const OPENING_CHARS = 120;
/** Of the users' budget, what is left to the openings of messages that do not fit whole. */
const OPENINGS_SHARE = 0.15;

const section = (heading: string, lines: readonly string[]): readonly string[] =>
  lines.length === 0 ? [] : [[`## ${heading}`, ...lines].join("\n")];

interface UserSections {
  readonly texts: readonly string[];
  /** The texts of messages that are shown whole. */
  readonly shown: ReadonlyMap<Seq, string>;
}

const renderUsers = (sections: Sections, excludeSeq: Seq | null, budgetTokens: number): UserSections => {
  const messages = newestFirst(sections.userMessages).filter(({ seq }) => seq !== excludeSeq);
  const whole = within(messages, messageEntry, budgetTokens);
  const openings = [
    ...messages
      .slice(whole.length)
      .map(({ seq, origin, text }) => ({ seq, origin, opening: text.slice(0, OPENING_CHARS).toWellFormed() })),
    ...newestFirst(sections.olderMessages).filter(({ seq }) => seq !== excludeSeq),
  ].map((each) => ({ ...each, opening: each.opening.split(/\s+/).join(" ") }));
  const begun = within(openings, openingEntry, budgetTokens * OPENINGS_SHARE);
  const unnamed = openings.length - begun.length + (sections.dropped["user message"] ?? 0);
  return {
    texts: [
      ...section("What the user wrote, newest first", whole.map(messageEntry)),
      ...section("Earlier messages that are not repeated here", [
        ...begun.map(openingEntry),
        ...(unnamed > 0 && openings.length > 0 ? [`- and ${unnamed} before them`] : []),
      ]),
    ],
    shown: new Map(whole.map(({ seq, text }) => [seq, text])),
  };
};

const DONE: Readonly<Record<FileOperation, string>> = {
  read: "read",
  write: "written",
  edit: "edited",
  delete: "deleted",
  other: "named in a call",
};

const TODO_MARK: Readonly<Record<TodoStatus, string>> = {
  completed: "done by then",
  in_progress: "begun by then",
  pending: "not begun by then",
};

/** One line per row and kind: the row's seq, the kind, the identifiers as they stood. */
const identifierLines = (entries: readonly IndexedIdentifier[]): readonly string[] => {
  const groups = new Map<string, string[]>();
  for (const entry of newestFirst(entries)) {
    const head = `- ${entry.seq} ${entry.kind}: `;
    const text = /[,\s]/.test(entry.text) ? `"${entry.text}"` : entry.text;
    const group = groups.get(head);
    if (group === undefined) groups.set(head, [text]);
    else group.push(text);
  }
  return [...groups].map(([head, texts]) => head + texts.join(", "));
};

/** Of paths, ids and names, which tokenizers cut finer than prose. A plain division, since there are thousands of them. */
const CHARS_PER_TOKEN = 2.3;
/** Of ", " after an entry, and of a line's head for the first entry of its row and kind. */
const SEPARATOR_CHARS = 2;
const HEAD_CHARS = 12;

/** Of the share, what the index gets even where the others have taken it all. */
const INDEX_FLOOR = 0.3;
/** Of the index's budget, what goes to the families of what does not fit. */
const FAMILIES_SHARE = 0.08;
const MAX_FAMILIES = 40;

const indexed = (
  entries: readonly IndexedIdentifier[],
  budgetTokens: number,
): { readonly kept: readonly IndexedIdentifier[]; readonly dropped: readonly IndexedIdentifier[] } => {
  const heads = new Set<string>();
  const kept: IndexedIdentifier[] = [];
  const dropped: IndexedIdentifier[] = [];
  let left = budgetTokens * CHARS_PER_TOKEN;
  for (const entry of entries) {
    const head = `${entry.seq} ${entry.kind}`;
    const cost = entry.text.length + SEPARATOR_CHARS + (heads.has(head) ? 0 : HEAD_CHARS);
    if (cost > left) {
      dropped.push(entry);
      continue;
    }
    left -= cost;
    heads.add(head);
    kept.push(entry);
  }
  return { kept, dropped };
};

const renderIdentifiers = (
  sections: Sections,
  isShown: (entry: IndexedIdentifier) => boolean,
  budgetTokens: number,
): readonly string[] => {
  const { kept, dropped } = indexed(
    sections.identifiers.filter((entry) => !isShown(entry)),
    budgetTokens * (1 - FAMILIES_SHARE),
  );
  const families = within(
    familiesOf(sections.families, dropped, MAX_FAMILIES),
    familyLine,
    budgetTokens * FAMILIES_SHARE,
  );
  return [
    ...section("Identifiers that appeared (last message that held them, kind, text)", identifierLines(kept)),
    ...section("Others, by what a search finds (regular expressions between slashes)", [
      ...families.map(familyLine),
      ...kindLines(sections, dropped, families),
    ]),
  ];
};

const familyLine = ({ term, kind, count, lastSeq }: IdentifierFamily): string =>
  `- ${lastSeq} ${kind}: ${count} with ${term}`;

const isKind = (kind: string): kind is IdentifierKind => Object.hasOwn(KIND_PATTERN, kind);

/** For each kind the pattern that finds those that are in no family above. Always shown: it is what nothing falls through. */
const kindLines = (
  sections: Sections,
  dropped: readonly IndexedIdentifier[],
  families: readonly IdentifierFamily[],
): readonly string[] => {
  const counts = new Map<string, number>(Object.entries(sections.dropped).filter(([kind]) => isKind(kind)));
  for (const { kind } of dropped) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  for (const { kind, count } of families) counts.set(kind, (counts.get(kind) ?? 0) - count);
  return [...counts]
    .filter(([, count]) => count > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([kind, count]) => (isKind(kind) ? `- ${kind}: ${count} with /${KIND_PATTERN[kind]}/` : ""));
};

const ANSWER_OPENING_CHARS = 60;

/** Questions with their answers, those that a tool put first; of what does not fit, the beginnings. */
const renderAnswers = (
  { answers }: Sections,
  excludeSeq: Seq | null,
  shown: ReadonlyMap<Seq, string>,
  budgetTokens: number,
): readonly string[] => {
  const wanted = newestFirst(answers)
    .filter(({ seq }) => seq !== excludeSeq)
    .sort((a, b) => Number(b.via === "tool") - Number(a.via === "tool"));
  // A message that is shown whole above needs only its question here.
  const entry = ({ seq, question, answer }: Answer): string =>
    shown.has(seq)
      ? `- Message ${seq} answered: ${question}`
      : `- Message ${seq}. Asked: ${question}\n${fenced(answer)}`;
  const opening = ({ seq, answer }: Answer): string =>
    `- Message ${seq} answered, beginning: ${answer.slice(0, ANSWER_OPENING_CHARS).toWellFormed().split(/\s+/).join(" ")}`;
  const whole = within(wanted, entry, budgetTokens);
  const rest = wanted.slice(whole.length).filter(({ via }) => via === "tool");
  return [...whole.map(entry), ...within(rest, opening, budgetTokens * OPENINGS_SHARE).map(opening)];
};

/**
 * The sections as Markdown; empty where there is nothing to show.
 *
 * Texts are joined as they are, no template and no pattern touches them (S8). User messages are verbatim and newest first (S2); the
 * payloads of events are marked as data (R7). Same input, same bytes (V1).
 */
export const renderSections = (
  sections: Sections,
  { excludeSeq = null, budgets = sections.budgets }: RenderOptions = {},
): string => {
  const users = renderUsers(sections, excludeSeq, budgets.userTokens);
  const answers = renderAnswers(sections, excludeSeq, users.shown, budgets.answerTokens);
  const files = within(
    sections.files.map((file) => ({
      ...file,
      line: `- ${DONE[file.operation]} ${file.path} (message ${file.lastSeq})`,
    })),
    ({ line }) => line,
    budgets.fileTokens,
  );
  const todos = within(
    (sections.todos?.items ?? []).map(({ content, status }) => `- ${TODO_MARK[status]}: ${content}`),
    (line) => line,
    budgets.todoTokens,
  );
  const listed = new Set(files.map(({ path }) => path));
  // What stands in a message that is shown whole, or in the pinned ask, is said there with its seq.
  const isShown = ({ text, seq }: IndexedIdentifier): boolean =>
    listed.has(text) || users.shown.get(seq)?.includes(text) === true || seq === excludeSeq;
  const told = [
    ...users.texts,
    ...section("Questions the agent asked, and the answers it was given", answers),
    ...section(
      "Files that were read or changed",
      files.map(({ line }) => line),
    ),
    ...section(`The todo list as it was written at message ${sections.todos?.seq ?? 0}`, todos),
    // Outside every budget: a name that is not here cannot be loaded again by whoever needs it (R5).
    ...section(
      "Skills that had been loaded and whose text was left out, newest first",
      (sections.skills ?? []).map(({ name }) => `- ${skillMarker(name)}`),
    ),
  ].join("\n\n");
  // The index takes what the others leave of the share, so that little text does not become as much handoff.
  const left = budgets.shareTokens - estimateTokens(told);
  const index = renderIdentifiers(
    sections,
    isShown,
    Math.min(budgets.identifierTokens, Math.max(left, budgets.shareTokens * INDEX_FLOOR)),
  );
  return [told, ...index].filter((text) => text !== "").join("\n\n");
};
