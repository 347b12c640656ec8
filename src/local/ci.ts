/**
 * Everything that must hold before a change lands. A failed step does not keep the others from running; the last line counts what
 * passed and failed: each test is one, and so is each other step.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { collectionFolder, sampleFolders } from "./replay/collect.ts";
import { inWords, PROJECT, runStep, type Step, type StepResult } from "./steps.ts";
import { UNHANDLED_FILE } from "./unhandled-reporter.ts";

/** Everything beside the tests of `npm test` and the replays. */
export const CHECKS: readonly Step[] = [
  { name: "lint", command: ["src/local/lint.ts"] },
  { name: "typecheck", command: ["tsc", "--noEmit"] },
  { name: "build", command: ["src/local/build.ts"] },
  { name: "slow", command: ["vitest", "run", "--config", "vitest.slow.config.ts"] },
  { name: "browser", command: ["vitest", "run", "--config", "vitest.browser.config.ts"] },
  { name: "deep", command: ["vitest", "run", "--config", "vitest.deep.config.ts"] },
  { name: "faults", command: ["vitest", "run", "--config", "vitest.faults.config.ts"] },
  { name: "harness", command: ["vitest", "run", "--config", "vitest.harness.config.ts"] },
];

/** Larger recordings are left to whoever runs `npm run replay` by hand, in KB. */
const REPLAY_MAX_KB = 1_024;

/**
 * The replays: the sample always, the collection where it exists.
 * @param collection its folder
 */
export const replaySteps = (collection: string | undefined): readonly Step[] => [
  { name: "replay", command: ["src/local/replay.ts", ...sampleFolders] },
  // A model whose window holds prompt and answer, and which refuses what does not fit together.
  { name: "replay older", command: ["src/local/replay.ts", "--model", "claude-opus-4-1", ...sampleFolders] },
  ...(collection === undefined
    ? []
    : [
        {
          name: "replay all",
          command: ["src/local/replay.ts", "--max-kb", String(REPLAY_MAX_KB), collection] as const,
        },
      ]),
];

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

interface VitestReport {
  /** One for each file; its own message tells why it did not load. */
  readonly testResults?: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[] | null;
    }[];
  }[];
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
}

/**
 * What a test run counts for. A run that failed without a failed test (a file that does not load, a report that is missing) is one
 * failure, and so is a run without a test.
 */
export const countTests = (report: VitestReport | undefined, exitCode: number): Counts => {
  if (report === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const { numPassedTests: passed, numFailedTests, numPendingTests, numTodoTests } = report;
  const unexplained = (exitCode !== 0 || passed === 0) && numFailedTests === 0;
  return { passed, failed: unexplained ? 1 : numFailedTests, skipped: numPendingTests + numTodoTests };
};

/** Most failures that are told again at the end, and most characters of each. */
const MAX_TOLD = 20;
const MAX_TOLD_CHARS = 600;

/** What failed, said again where the end of a long output shows it: a line or a few for each test, or file that did not load. */
export const failuresInWords = (
  report: VitestReport | undefined,
  exitCode: number,
  unhandled: readonly string[],
): readonly string[] => {
  const failures = (report?.testResults ?? []).flatMap(({ name, status, message, assertionResults }) => {
    const file = relative(PROJECT, name);
    const failed = assertionResults.filter((result) => result.status === "failed");
    if (failed.length === 0) return status === "failed" ? [`${file}: ${message ?? "did not load"}`] : [];
    return failed.map(({ fullName, failureMessages }) => `${file}: ${fullName}\n  ${failureMessages?.[0] ?? ""}`);
  });
  const told = [...failures, ...unhandled.map((error) => `outside of the tests: ${error}`)];
  if (told.length === 0 && exitCode !== 0) return [`The test run ended with ${exitCode} without saying why.`];
  const more = told.length > MAX_TOLD ? [`and ${told.length - MAX_TOLD} more`] : [];
  return [...told.slice(0, MAX_TOLD).map((text) => text.slice(0, MAX_TOLD_CHARS)), ...more];
};

/** The closing line. */
export const closingLine = (tests: Counts, steps: readonly Pick<StepResult, "exitCode">[]): string => {
  const failedSteps = steps.filter(({ exitCode }) => exitCode !== 0).length;
  const skipped = tests.skipped === 0 ? "" : `, ${tests.skipped} skipped`;
  return `${tests.passed + steps.length - failedSteps} passed, ${tests.failed + failedSteps} failed${skipped}`;
};

const readJson = async <T>(path: string): Promise<T | undefined> => {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    return undefined;
  }
};

const main = async (): Promise<void> => {
  const now = () => performance.now();
  const directory = await mkdtemp(join(tmpdir(), "hango-ci-"));
  const report = join(directory, "vitest.json");
  const unhandled = join(directory, "unhandled.json");
  const steps: StepResult[] = [];
  try {
    const vitest: Step = {
      name: "tests",
      command: [
        "vitest",
        "run",
        "--reporter=default",
        "--reporter=json",
        "--reporter=./src/local/unhandled-reporter.ts",
        `--outputFile.json=${report}`,
      ],
      env: { [UNHANDLED_FILE]: unhandled },
    };
    const tests = await runStep(vitest, now);
    for (const step of [...CHECKS, ...replaySteps(collectionFolder())]) {
      console.log(`\n--- ${step.name}`);
      steps.push(await runStep(step, now));
    }
    const read = await readJson<VitestReport>(report);
    const outside = (await readJson<readonly string[]>(unhandled)) ?? [];
    const counts = countTests(read, tests.exitCode);
    for (const failure of failuresInWords(read, tests.exitCode, outside)) console.log(`\nfailed: ${failure}`);
    console.log(`\n${[tests, ...steps].map(inWords).join("\n")}`);
    console.log(closingLine(counts, steps));
    if (tests.exitCode !== 0 || counts.failed > 0 || steps.some(({ exitCode }) => exitCode !== 0)) process.exitCode = 1;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
};

if (import.meta.main) await main();
