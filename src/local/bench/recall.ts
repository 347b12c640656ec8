/** The recall measurement: no model takes part, so it is the same on every machine. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { SECTION_SHARE } from "../../context/section-budgets.ts";
import { chartSvg } from "./curve.ts";
import { type Baseline, measureBaselines, measureNeeded, type RecallMeasurement } from "./needed.ts";
import { measurePlanted, type PlantedMeasurement } from "./planted.ts";
import { dataFolder } from "./recorded.ts";

/** From sections of next to nothing to half of the covered text. */
const SHARES = [0.001, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, SECTION_SHARE, 0.18, 0.22, 0.3, 0.5] as const;

/** What was asked for: at least so much recall at no more than so much of the characters. */
export const RECALL_GOAL = { recall: 0.92, size: 0.25 } as const;

export interface RecallReport {
  readonly curve: readonly RecallMeasurement[];
  /** The measurement with the share that sections have by default. */
  readonly atDefault: RecallMeasurement | undefined;
  readonly baselines: readonly Baseline[];
  readonly planted: readonly PlantedMeasurement[];
  /** For people: a few lines, no colours. */
  readonly table: string;
  /** The curve of recall against size, an SVG document. */
  readonly svg: string;
}

const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;
const row = (...cells: readonly string[]): string =>
  cells
    .map((cell, at) => cell.padEnd(at === 0 ? 32 : 22))
    .join("")
    .trimEnd();

const neededTable = (curve: readonly RecallMeasurement[], baselines: readonly Baseline[]): readonly string[] => [
  row("needed after the cut", "all: recall at size", "tuned half", "held-out half"),
  ...curve.map(({ share, recall, size, tuned, heldOut }) =>
    row(
      `  sections of ${percent(share)}${share === SECTION_SHARE ? " (default)" : ""}`,
      ...[{ recall, size }, tuned, heldOut].map((point) => `${percent(point.recall)} at ${percent(point.size)}`),
    ),
  ),
  ...baselines.map(({ name, recall, size }) => row(`  ${name}`, `${percent(recall)} at ${percent(size)}`)),
];

const plantedTable = (planted: readonly PlantedMeasurement[]): readonly string[] => {
  const sum = (of: (each: PlantedMeasurement) => number): number =>
    planted.reduce((total, each) => total + of(each), 0);
  const all = sum(({ planted: count }) => count);
  const found = sum(({ shown, searched }) => shown + searched);
  return [
    `planted identifiers               ${found} of ${all} found (${percent(found / Math.max(1, all))}) in ${planted.length} sessions: ${sum(({ shown }) => shown)} shown, ${sum(({ searched }) => searched)} by one search`,
    ...planted.flatMap(({ session, missed }) => missed.map((text) => `  missed in ${session}: ${text}`)),
  ];
};

/**
 * Measures recall over recorded sessions.
 * @param folder with `sessions/` and `recall/`; default: the collection beside the checkout, else the sample in the fixtures
 */
export const runRecall = (folder = dataFolder()): RecallReport => {
  const curve = measureNeeded(folder, SHARES);
  const baselines = measureBaselines(folder);
  const planted = measurePlanted(folder);
  return {
    curve,
    atDefault: curve.find(({ share }) => share === SECTION_SHARE),
    baselines,
    planted,
    table: [...neededTable(curve, baselines), ...plantedTable(planted)].join("\n"),
    svg: chartSvg({
      title: "What was needed after the cut and is still there",
      xLabel: "size: rendered sections and kept tail, as a part of the characters before the cut",
      yLabel: "recall",
      xMax: 0.5,
      curve: curve.map(({ recall, size }) => ({ x: size, y: recall })),
      points: baselines.map(({ name, recall, size }) => ({ name, x: size, y: recall })),
      goal: { x: RECALL_GOAL.size, y: RECALL_GOAL.recall },
    }),
  };
};

/**
 * Prints the tables and draws the curve to `docs/recall.svg`.
 * @returns whether the default share reaches the goal and every planted identifier was found
 */
export const benchRecall = (): boolean => {
  const { table, svg, atDefault, planted } = runRecall();
  process.stdout.write(`\n${table}\n`);
  writeFileSync(join(import.meta.dirname, "../../../docs/recall.svg"), svg);
  const reached =
    atDefault !== undefined && atDefault.recall >= RECALL_GOAL.recall && atDefault.size <= RECALL_GOAL.size;
  return reached && planted.every(({ missed }) => missed.length === 0);
};
