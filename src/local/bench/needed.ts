/**
 * Recall of what was needed after a cut, by a summariser that adds nothing: rendered sections and the kept tail. The probes are strings
 * that the recorded agent used after the cut and could only know from before it.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { renderSections } from "../../context/render-sections.ts";
import { sectionBudgets } from "../../context/section-budgets.ts";
import { type Sections, sectionsOf } from "../../context/sections.ts";
import type { LogRow } from "../../protocol/messages.ts";
import { readRows } from "./recorded.ts";

interface Probe {
  readonly session: string;
  /** The cut lies before the message of this index, counted from 0. */
  readonly cut_msg: number;
  readonly needed: readonly { readonly s: string }[];
}

/** Recall and size of one way to keep things, each the mean over the cuts, as fractions. */
export interface RecallPoint {
  readonly recall: number;
  readonly size: number;
}

export interface RecallMeasurement extends RecallPoint {
  /** The setting: the share of the covered text that the sections may take. */
  readonly share: number;
  /** The half of the sessions that the ranking was tuned on, and the other one. */
  readonly tuned: RecallPoint;
  readonly heldOut: RecallPoint;
}

/** The window that the budgets are made for: the smallest of current models. */
const WINDOW_TOKENS = 200_000;
/** C1's share of the rows. */
const KEEP_FRACTION = 0.1;
const CHARS_PER_TOKEN = 2.7;

/** Members that the scorer of the probes does not count as text. */
const NOT_TEXT = new Set(["data", "signature", "id", "tool_use_id", "encrypted_content", "type"]);

const textsOf = (value: unknown): readonly string[] => {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => (NOT_TEXT.has(key) ? [] : textsOf(item)));
};

const textOf = (rows: readonly LogRow[]): string =>
  rows.flatMap(({ content }) => textsOf(JSON.parse(content)).join("\n")).join("\n");

/** A line of a family tells a part of many identifiers and none whole; headings tell nothing. Neither counts. */
const isEntry = (line: string): boolean => !line.startsWith("## ") && !/^- \d+ \w+: \d+ with /.test(line);

interface Cut {
  readonly session: string;
  readonly needed: readonly string[];
  readonly sections: Sections;
  readonly tail: string;
  readonly rows: readonly LogRow[];
  readonly fullChars: number;
}

const cutsOf = (folder: string): readonly Cut[] => {
  const file = join(folder, "recall", "needed-after-cut.jsonl");
  if (!existsSync(file)) return [];
  const probes: Probe[] = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
    .filter((line) => line.type === undefined);
  const sessions = new Map<string, readonly LogRow[]>();
  return probes.map(({ session, cut_msg, needed }) => {
    const rows = sessions.get(session) ?? readRows(folder, session);
    sessions.set(session, rows);
    const kept = Math.max(1, Math.ceil(cut_msg * KEEP_FRACTION));
    return {
      session,
      needed: needed.map(({ s }) => s),
      sections: sectionsOf(rows.slice(0, cut_msg - kept), WINDOW_TOKENS),
      tail: textOf(rows.slice(cut_msg - kept, cut_msg)),
      rows: rows.slice(0, cut_msg),
      fullChars: textOf(rows.slice(0, cut_msg)).length,
    };
  });
};

const pointOf = (cut: Cut, share: number): RecallPoint => {
  const budgets = sectionBudgets(WINDOW_TOKENS, cut.sections.sourceChars / CHARS_PER_TOKEN, share);
  const rendered = renderSections(cut.sections, { budgets });
  const counted = [...rendered.split("\n").filter(isEntry), cut.tail].join("\n");
  return {
    recall: cut.needed.filter((text) => counted.includes(text)).length / cut.needed.length,
    size: (rendered.length + 1 + cut.tail.length) / cut.fullChars,
  };
};

const mean = (points: readonly RecallPoint[]): RecallPoint => ({
  recall: points.reduce((sum, { recall }) => sum + recall, 0) / Math.max(1, points.length),
  size: points.reduce((sum, { size }) => sum + size, 0) / Math.max(1, points.length),
});

/**
 * Measures recall for several sizes of the sections.
 * @param folder has `recall/needed-after-cut.jsonl` and the sessions it names
 * @returns one measurement for each share, in order; empty where the folder has no probes
 */
export const measureNeeded = (folder: string, shares: readonly number[]): readonly RecallMeasurement[] => {
  const cuts = cutsOf(folder);
  if (cuts.length === 0) return [];
  const names = [...new Set(cuts.map(({ session }) => session))].sort();
  const tunedOn = new Set(names.filter((_, at) => at % 2 === 0));
  return shares.map((share) => {
    const points = cuts.map((cut) => ({ ...pointOf(cut, share), isTuned: tunedOn.has(cut.session) }));
    return {
      share,
      ...mean(points),
      tuned: mean(points.filter(({ isTuned }) => isTuned)),
      heldOut: mean(points.filter(({ isTuned }) => !isTuned)),
    };
  });
};

export interface Baseline extends RecallPoint {
  readonly name: string;
}

const withoutResults = (rows: readonly LogRow[]): string =>
  rows
    .flatMap(({ content }) => {
      const blocks: readonly { readonly type: string }[] = JSON.parse(content);
      return textsOf(blocks.filter(({ type }) => type !== "tool_result"));
    })
    .join("\n");

const LAST_MESSAGES = 10;

const BASELINES: readonly (readonly [string, (rows: readonly LogRow[]) => string])[] = [
  ["last 10 messages", (rows) => textOf(rows.slice(-LAST_MESSAGES))],
  ["all but tool results", withoutResults],
];

/** What two plain ways to keep less would have kept, for comparison. */
export const measureBaselines = (folder: string): readonly Baseline[] => {
  const cuts = cutsOf(folder);
  return BASELINES.map(([name, keep]) => ({
    name,
    ...mean(
      cuts.map(({ rows, needed, fullChars }) => {
        const kept = keep(rows);
        return {
          recall: needed.filter((text) => kept.includes(text)).length / needed.length,
          size: kept.length / fullChars,
        };
      }),
    ),
  }));
};
