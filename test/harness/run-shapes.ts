/** Runs many shapes on several lanes at once, and says what came of them. */
import { type Lane, startLane } from "./lane.ts";
import { shapePlan } from "./plan.ts";
import { runShape } from "./shape.ts";
import { createTally, type Tally, type Violation } from "./tally.ts";

export interface HarnessRun {
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly tally: Tally;
  readonly seconds: number;
}

export interface HarnessOptions {
  readonly seed: number;
  /** Numbers of the shapes. */
  readonly shapes: readonly number[];
  readonly passes: number;
  readonly lanes: number;
  /** Ends the run at the first violation. */
  readonly untilViolated?: boolean;
}

/** After how many sessions a line says how far it is. */
const PROGRESS = 50;

const violationWords = ({ invariant, words, shape, pass }: Violation): string =>
  `shape ${shape}, pass ${pass}, ${invariant}: ${words}`;

export const runShapes = async (options: HarnessOptions): Promise<HarnessRun> => {
  const { seed, passes } = options;
  const tally = createTally();
  const violations: Violation[] = [];
  const left = [...options.shapes];
  let done = 0;
  const startedMs = performance.now();
  const startedCpu = process.cpuUsage();
  const work = async (lane: Lane): Promise<void> => {
    for (;;) {
      const index = left.shift();
      if (index === undefined || (options.untilViolated === true && violations.length > 0)) return;
      const result = await runShape(shapePlan(seed, index, passes), lane, tally);
      violations.push(...result.violations);
      if (result.violations.length > 0 && options.untilViolated !== true)
        console.log(`seed ${seed}: ${result.violations.map(violationWords).join("\n")}`);
      done += 1;
      if (done % PROGRESS === 0) console.log(`seed ${seed}: ${done} of ${options.shapes.length} sessions`);
    }
  };
  const lanes = await Promise.all(Array.from({ length: options.lanes }, startLane));
  try {
    await Promise.all(lanes.map(work));
  } finally {
    for (const lane of lanes) tally.add("processor ms", "database", lane.databaseMs());
    await Promise.all(lanes.map((lane) => lane.close()));
  }
  const cpu = process.cpuUsage(startedCpu);
  tally.add("processor ms", "workers and simulator", Math.round((cpu.user + cpu.system) / 1000));
  return { seed, violations, tally, seconds: (performance.now() - startedMs) / 1000 };
};

/** What was run, and of each violation how to see it again. */
export const inWords = ({ seed, violations, tally, seconds }: HarnessRun): string =>
  [
    `seed ${seed}: ${seconds.toFixed(1)} s`,
    ...tally.lines(),
    `violations: ${violations.length}`,
    ...violations
      .slice(0, 20)
      .flatMap((violation) => [
        `  ${violationWords(violation)}`,
        `  to see it again: HANGO_HARNESS_SEED=${seed} HANGO_HARNESS_SHAPE=${violation.shape} npm run test:harness -- shapes-1`,
      ]),
  ].join("\n");
