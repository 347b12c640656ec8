/**
 * What a compaction keeps of the covered rows without asking a model (S2): the user's words, answers, files, todos, identifiers. Plain
 * data that is stored with the generation, merged from one generation to the next, and bounded.
 */
import type { Seq } from "../protocol/ids.ts";
import type { LogRow } from "../protocol/messages.ts";
import { familiesOf, type IdentifierFamily } from "./identifier-families.ts";
import { fitting, type IndexedIdentifier, mergedIndex } from "./identifier-index.ts";
import { type LostSkill, lostSkills, mergedLost } from "./lost-skills.ts";
import type { Answer } from "./questions.ts";
import { readRows, type TodoList, type UserMessage } from "./read-rows.ts";
import { type SectionBudgets, sectionBudgets } from "./section-budgets.ts";
import { type TouchedFile, touchedAgain } from "./touched-files.ts";

/** An older user message of which only the beginning is kept. */
export interface MessageOpening {
  readonly seq: Seq;
  readonly origin: UserMessage["origin"];
  readonly opening: string;
}

export interface Sections {
  /** Oldest first. */
  readonly userMessages: readonly UserMessage[];
  /** Of user messages that are no longer kept whole; oldest first. */
  readonly olderMessages: readonly MessageOpening[];
  /** Oldest first. */
  readonly answers: readonly Answer[];
  /** Most lately touched first. */
  readonly files: readonly TouchedFile[];
  /** The list as last written. */
  readonly todos: TodoList | null;
  /** Skills whose text was lost, newest first (R5). Absent in generations that were made before there were skills. */
  readonly skills?: readonly LostSkill[];
  /** Worthiest first. */
  readonly identifiers: readonly IndexedIdentifier[];
  readonly families: readonly IdentifierFamily[];
  /** How many of each kind were dropped for want of room, since the first generation. One that came back may count twice. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Characters of text that was read, over all generations. */
  readonly sourceChars: number;
  /** What a rendering may take, fixed when the generation is made (V2). */
  readonly budgets: SectionBudgets;
}

/** For callers that know no window: the smallest of current models. */
const DEFAULT_WINDOW_TOKENS = 200_000;

/** As the estimator has it for prose and code. */
const CHARS_PER_TOKEN = 2.7;

export const EMPTY_SECTIONS: Sections = {
  userMessages: [],
  olderMessages: [],
  answers: [],
  files: [],
  todos: null,
  skills: [],
  identifiers: [],
  families: [],
  dropped: {},
  sourceChars: 0,
  budgets: sectionBudgets(DEFAULT_WINDOW_TOKENS, 0),
};

/** Characters and counts that a generation stores at most. */
export interface SectionLimits {
  readonly userChars: number;
  readonly answerChars: number;
  readonly olderMessages: number;
  readonly files: number;
  readonly identifierChars: number;
  readonly families: number;
}

/** Enough to fill the largest budgets of a rendering (see `render-sections.ts`); about 130 KB of JSON in all, half of it the index. */
export const SECTION_LIMITS: SectionLimits = {
  userChars: 26_000,
  answerChars: 8_000,
  olderMessages: 60,
  files: 150,
  identifierChars: 20_000,
  families: 60,
};

const OPENING_CHARS = 120;

/** The newest items whose texts fit into a number of characters, oldest first, and the older rest. At least the newest stays. */
const newest = <Item>(
  items: readonly Item[],
  size: (item: Item) => number,
  budgetChars: number,
): { readonly kept: readonly Item[]; readonly rest: readonly Item[] } => {
  let left = budgetChars;
  let from = items.length;
  while (from > 0) {
    const item = items[from - 1];
    if (item === undefined) break;
    left -= size(item);
    if (left < 0 && from < items.length) break;
    from--;
  }
  return { kept: items.slice(from), rest: items.slice(0, from) };
};

const bySeq = (a: { readonly seq: Seq }, b: { readonly seq: Seq }): number => a.seq - b.seq;

/** Answers to a question that a tool put stand nowhere else; an answer in a message of the user is among those too. */
const leastWanted = (a: Answer, b: Answer): number =>
  Number(a.via === "tool") - Number(b.via === "tool") || a.seq - b.seq;

type Unsized = Omit<Sections, "budgets">;

/** Sections within their limits; what goes is counted. */
const bounded = (sections: Unsized, windowTokens: number, limits: SectionLimits): Sections => {
  const users = newest(sections.userMessages, ({ text }) => text.length, limits.userChars);
  const openings = [
    ...sections.olderMessages,
    ...users.rest.map(({ seq, origin, text }) => ({
      seq,
      origin,
      opening: text.replace(/\s+/g, " ").trim().slice(0, OPENING_CHARS).toWellFormed(),
    })),
  ].sort(bySeq);
  const answers = newest(
    [...sections.answers].sort(leastWanted),
    ({ question, answer }) => question.length + answer.length,
    limits.answerChars,
  );
  const files = [...sections.files].sort((a, b) => b.lastSeq - a.lastSeq || (a.path < b.path ? -1 : 1));
  const identifiers = fitting(sections.identifiers, limits.identifierChars);
  const dropped = new Map(Object.entries(sections.dropped));
  const count = (kind: string, by: number): void => {
    if (by > 0) dropped.set(kind, (dropped.get(kind) ?? 0) + by);
  };
  count("user message", Math.max(0, openings.length - limits.olderMessages));
  count("answer", answers.rest.length);
  count("file", Math.max(0, files.length - limits.files));
  for (const { kind } of identifiers.dropped) count(kind, 1);
  return {
    userMessages: users.kept,
    olderMessages: openings.slice(-limits.olderMessages),
    answers: [...answers.kept].sort(bySeq),
    files: files.slice(0, limits.files),
    todos: sections.todos,
    skills: sections.skills ?? [],
    identifiers: identifiers.kept,
    families: familiesOf(sections.families, identifiers.dropped, limits.families),
    dropped: Object.fromEntries([...dropped].sort(([a], [b]) => (a < b ? -1 : 1))),
    sourceChars: sections.sourceChars,
    budgets: sectionBudgets(windowTokens, sections.sourceChars / CHARS_PER_TOKEN),
  };
};

/**
 * The sections of rows (S2), secrets taken out (S6). One pass over their text; rows in the order of their seq.
 * @throws SyntaxError if a row's content is not JSON, which the log never holds
 */
export const sectionsOf = (
  rows: readonly LogRow[],
  windowTokens: number = DEFAULT_WINDOW_TOKENS,
  limits: SectionLimits = SECTION_LIMITS,
): Sections => {
  const { users, ...rest } = readRows(rows);
  return bounded({ ...EMPTY_SECTIONS, ...rest, userMessages: users, skills: lostSkills(rows) }, windowTokens, limits);
};

/** Joins the sections of a base generation with those of the rows covered since: a new generation keeps what its base kept (S2). */
export const mergeSections = (
  base: Sections | null,
  next: Sections,
  windowTokens: number = DEFAULT_WINDOW_TOKENS,
  limits: SectionLimits = SECTION_LIMITS,
): Sections => {
  if (base === null) return bounded(next, windowTokens, limits);
  const files = new Map(base.files.map((file) => [file.path, file]));
  for (const file of next.files) files.set(file.path, touchedAgain(files.get(file.path), file));
  const dropped = new Map(Object.entries(base.dropped));
  for (const [kind, count] of Object.entries(next.dropped)) dropped.set(kind, (dropped.get(kind) ?? 0) + count);
  return bounded(
    {
      userMessages: [...base.userMessages, ...next.userMessages].sort(bySeq),
      olderMessages: [...base.olderMessages, ...next.olderMessages].sort(bySeq),
      answers: [...base.answers, ...next.answers].sort(bySeq),
      files: [...files.values()],
      todos: (next.todos?.seq ?? 0) >= (base.todos?.seq ?? 0) ? (next.todos ?? base.todos) : base.todos,
      skills: mergedLost(base.skills, next.skills),
      identifiers: mergedIndex(base.identifiers, next.identifiers),
      families: familiesOf([...base.families, ...next.families], [], limits.families),
      dropped: Object.fromEntries(dropped),
      sourceChars: base.sourceChars + next.sourceChars,
    },
    windowTokens,
    limits,
  );
};
