/**
 * Identifiers planted in recorded sessions, and whether each is found again by one search of the history for a term that the handoff
 * shows. No model takes part.
 */
import { renderSections } from "../../context/render-sections.ts";
import { sectionsOf } from "../../context/sections.ts";
import { renderHistory } from "../../files/history-text.ts";
import { seq } from "../../protocol/ids.ts";
import type { LogRow, Origin } from "../../protocol/messages.ts";
import { readRows, rowOf, sessionNames } from "./recorded.ts";

const WINDOW_TOKENS = 200_000;
const KEEP_FRACTION = 0.1;
/** Lines that one `grep` shows at most. */
const GREP_LINES = 500;
const MIN_MESSAGES = 40;
const PER_KIND = 3;

const hex = (at: number, digits: number): string => {
  let text = "";
  let state = (at + 1) * 2_654_435_761;
  while (text.length < digits) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    text += Math.floor(state).toString(16);
  }
  return text.slice(0, digits);
};

/** What is planted, by kind: the text that must be found, and the sentence that it stands in. */
const KINDS: readonly (readonly [string, (at: number) => string, (text: string) => string])[] = [
  ["path", (at) => `/srv/exports/q${at}/ledger-${hex(at, 5)}.csv`, (text) => `The export was stored as ${text}.`],
  [
    "uuid",
    (at) => `${hex(at, 8)}-${hex(at + 1, 4)}-4${hex(at + 2, 3)}-a${hex(at + 3, 3)}-${hex(at + 4, 12)}`,
    (text) => `Its request was ${text}.`,
  ],
  ["id", (at) => `TKT-${48_000 + at * 17}`, (text) => `This is tracked as ${text}.`],
  ["hash", (at) => `${hex(at, 11)}e7`, (text) => `The build was made from ${text}.`],
  [
    "url",
    (at) => `https://status.example.test/incidents/${hex(at, 6)}`,
    (text) => `It is described at ${text} in full.`,
  ],
  ["number", (at) => `${3_100 + at * 37} ms`, (text) => `The slowest call took ${text} there.`],
  ["constraint", (at) => `Never restart replica ${at} before the audit of day ${at + 3} ends`, (text) => `${text}.`],
  ["answer", (at) => `Use the warehouse in hall ${at}, and leave the south gate closed`, (text) => `${text}.`],
];

interface Planted {
  readonly kind: string;
  readonly text: string;
}

const block = (text: string): string => JSON.stringify([{ type: "text", text }]);

/** A message of the user, or for an answer the agent's question and what it was answered; put before an assistant's message. */
const plantedRows = (kind: string, sentence: string, at: number): readonly (readonly [Origin, string])[] => {
  if (kind === "constraint")
    return [
      ["assistant", block("I have read it.")],
      ["user", block(sentence)],
    ];
  const id = `toolu_planted_${at}`;
  const [name, input] =
    kind === "answer"
      ? ["ask_user", { question: `Which place is meant in step ${at}?` }]
      : ["check_step", { step: at }];
  return [
    ["assistant", JSON.stringify([{ type: "tool_use", id, name, input }])],
    [
      "tool",
      JSON.stringify([
        { type: "tool_result", tool_use_id: id, content: `Step ${at} was checked.\n${sentence}\nNothing else.` },
      ]),
    ],
  ];
};

/** The rows with everything planted, evenly over those that will be covered. */
const plant = (rows: readonly LogRow[]): { readonly rows: readonly LogRow[]; readonly planted: readonly Planted[] } => {
  const places = rows.flatMap(({ role }, at) =>
    role === "assistant" && at < rows.length * (1 - 2 * KEEP_FRACTION) ? [at] : [],
  );
  const total = KINDS.length * PER_KIND;
  const planted: Planted[] = [];
  const before = new Map<number, (readonly [Origin, string])[]>();
  for (let n = 0; n < total; n++) {
    const [kind, make, sentence] = KINDS[n % KINDS.length] ?? KINDS[0] ?? [];
    const place = places[Math.floor((n * places.length) / total)];
    if (kind === undefined || make === undefined || sentence === undefined || place === undefined) continue;
    const text = make(n);
    planted.push({ kind, text });
    before.set(place, [...(before.get(place) ?? []), ...plantedRows(kind, sentence(text), n)]);
  }
  const all = rows.flatMap(({ origin, content }, at): (readonly [Origin, string])[] => [
    ...(before.get(at) ?? []),
    [origin, content],
  ]);
  return { rows: all.map(([origin, content], at) => rowOf(seq(at + 1), origin, content)), planted };
};

/** Whether a line matches a term, as `grep` has it. */
type Term = (line: string) => boolean;

const literal =
  (text: string): Term =>
  (line) =>
    line.includes(text);

/** The terms that the sections show: entries of the index, families, patterns of kinds, the openings of messages and answers. */
const termsOf = (rendered: string): readonly Term[] =>
  rendered.split("\n").flatMap((line): readonly Term[] => {
    const pattern = /^- \w+: \d+ with \/(.+)\/$/.exec(line)?.[1];
    if (pattern !== undefined) return [(each) => new RegExp(pattern).test(each)];
    const family = /^- \d+ \w+: \d+ with (.+)$/.exec(line)?.[1];
    if (family !== undefined) return [literal(family)];
    const entries = /^- \d+ \w+: (.+)$/.exec(line)?.[1];
    if (entries !== undefined) return entries.split(", ").map((entry) => literal(entry.replace(/^"|"$/g, "")));
    const opening = /^- Message \d+.*?(?:began|beginning): (.+)$/.exec(line)?.[1];
    return opening === undefined ? [] : [literal(opening)];
  });

export interface PlantedMeasurement {
  readonly session: string;
  readonly planted: number;
  /** Found because the sections show it whole. */
  readonly shown: number;
  /** Found by a term that the sections show. */
  readonly searched: number;
  readonly missed: readonly string[];
}

const measure = (folder: string, session: string): PlantedMeasurement => {
  const { rows, planted } = plant(readRows(folder, session));
  const covered = rows.slice(0, rows.length - Math.ceil(rows.length * KEEP_FRACTION));
  const rendered = renderSections(sectionsOf(covered, WINDOW_TOKENS));
  const history = renderHistory(covered.map((row) => ({ ...row, createdAt: "2026-01-01T00:00:00Z" }))).split("\n");
  const terms = termsOf(rendered);
  const isFound = (text: string): boolean => {
    const holding = history.filter(literal(text));
    return terms
      .filter((term) => holding.some(term))
      .some((term) => history.filter(term).slice(0, GREP_LINES).some(literal(text)));
  };
  const hidden = planted.filter(({ text }) => !rendered.includes(text));
  const missed = hidden.filter(({ text }) => !isFound(text));
  return {
    session,
    planted: planted.length,
    shown: planted.length - hidden.length,
    searched: hidden.length - missed.length,
    missed: missed.map(({ kind, text }) => `${kind} ${text}`),
  };
};

/** Plants in every session of at least 40 messages, and looks for everything planted. */
export const measurePlanted = (folder: string): readonly PlantedMeasurement[] =>
  sessionNames(folder)
    .filter((session) => readRows(folder, session).length >= MIN_MESSAGES)
    .map((session) => measure(folder, session));
