import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CHECKS, closingLine, countTests, failuresInWords, replaySteps } from "../../../src/local/ci.ts";
import { PROJECT } from "../../../src/local/steps.ts";

const report = (numPassedTests: number, numFailedTests: number, numPendingTests = 0, numTodoTests = 0) => ({
  numPassedTests,
  numFailedTests,
  numPendingTests,
  numTodoTests,
});

describe("the count of a CI run", () => {
  test.each([
    ["all passed", report(5, 0), 0, { passed: 5, failed: 0, skipped: 0 }],
    ["some failed", report(4, 1, 2, 1), 1, { passed: 4, failed: 1, skipped: 3 }],
    ["a file that does not load", report(5, 0), 1, { passed: 5, failed: 1, skipped: 0 }],
    ["no test at all", report(0, 0), 0, { passed: 0, failed: 1, skipped: 0 }],
    ["no report", undefined, 0, { passed: 0, failed: 1, skipped: 0 }],
  ])("of tests: %s", (_name, given, exitCode, counts) => {
    expect(countTests(given, exitCode)).toEqual(counts);
  });

  test("adds the steps to the tests in the closing line", () => {
    const steps = [{ exitCode: 0 }, { exitCode: 2 }, { exitCode: 0 }];
    expect(closingLine({ passed: 10, failed: 1, skipped: 0 }, steps)).toBe("12 passed, 2 failed");
    expect(closingLine({ passed: 10, failed: 0, skipped: 4 }, [])).toBe("10 passed, 0 failed, 4 skipped");
  });
});

describe("the failures of a CI run are said again at its end:", () => {
  const file = (name: string, status: string, failed: readonly string[], message = "") => ({
    name: join(PROJECT, name),
    status,
    message,
    assertionResults: [
      { fullName: "fine", status: "passed" },
      ...failed.map((fullName) => ({ fullName, status: "failed", failureMessages: [`expected ${fullName}`] })),
    ],
  });

  test("a failed test by its file, its name and the reason", () => {
    const given = { ...report(5, 1), testResults: [file("test/a.test.ts", "failed", ["adds up"])] };
    expect(failuresInWords(given, 1, [])).toEqual(["test/a.test.ts: adds up\n  expected adds up"]);
  });

  test("a file that does not load, and an error outside of the tests", () => {
    const broken = { ...report(5, 0), testResults: [file("test/b.test.ts", "failed", [], "no such module")] };
    expect(failuresInWords(broken, 1, [])).toEqual(["test/b.test.ts: no such module"]);
    expect(failuresInWords(report(5, 0), 1, ["Error: aborted"])).toEqual(["outside of the tests: Error: aborted"]);
    expect(failuresInWords(report(5, 0), 1, [])).toEqual([expect.stringContaining("without saying why")]);
    expect(failuresInWords(undefined, 1, [])).toHaveLength(1);
  });

  test("not more than can be read, and nothing where nothing failed", () => {
    const names = Array.from({ length: 30 }, (_, index) => `test ${index} ${"x".repeat(1_000)}`);
    const told = failuresInWords({ ...report(5, 30), testResults: [file("test/a.test.ts", "failed", names)] }, 1, []);
    expect(told).toHaveLength(21);
    expect(told.at(-1)).toBe("and 10 more");
    expect(Math.max(...told.map((text) => text.length))).toBe(600);
    expect(failuresInWords({ ...report(5, 0), testResults: [file("test/a.test.ts", "passed", [])] }, 0, [])).toEqual(
      [],
    );
  });
});

describe("the steps of a CI run", () => {
  test("are every configuration of vitest that is not the one of `npm test`", async () => {
    const configs = (await readdir(PROJECT)).filter((name) => /^vitest\..+\.config\.ts$/.test(name));
    const run = CHECKS.flatMap(({ command }) => command.filter((word) => word.endsWith(".config.ts")));
    expect(run.toSorted()).toEqual(configs.toSorted());
  });

  test("go through the pages with a browser after the slow tests", () => {
    const names = CHECKS.map(({ name }) => name);
    expect(names.slice(names.indexOf("slow"), names.indexOf("deep"))).toEqual(["slow", "browser"]);
  });
});

describe("the replays of a CI run", () => {
  test("are of the sample always, and of the collection where there is one, without its largest files", () => {
    const [sample, older, ...rest] = replaySteps("/collection");
    expect(sample?.command).toEqual([
      "src/local/replay.ts",
      expect.stringMatching(/test\/fixtures\/sessions$/),
      expect.stringMatching(/test\/fixtures\/demo$/),
    ]);
    expect(rest).toEqual([{ name: "replay all", command: ["src/local/replay.ts", "--max-kb", "1024", "/collection"] }]);
    expect(older?.command).toEqual([
      "src/local/replay.ts",
      "--model",
      "claude-opus-4-1",
      ...(sample?.command.slice(1) ?? []),
    ]);
    expect(replaySteps(undefined)).toEqual([sample, older]);
  });
});
