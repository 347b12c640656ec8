/** What the doctor prints: a line for each check. */
import type { CheckResult } from "../../turns/doctor/check.ts";

const MARKS = { ok: "ok   ", failed: "FAIL ", skipped: "skip " } as const satisfies Record<
  CheckResult["status"],
  string
>;

/** As long as the longest name. */
const NAME_WIDTH = 13;

/** A line of a check; whatever a server has said stays on it. */
export const lineOf = ({ name, status, detail }: CheckResult): string =>
  `${MARKS[status]} ${name.padEnd(NAME_WIDTH)}  ${detail.replaceAll(/\s*[\r\n]+\s*/g, " ")}`;

/** The last line. */
export const verdict = (results: readonly CheckResult[]): string => {
  const failed = results.filter(({ status }) => status === "failed").length;
  if (failed === 0) return "Everything that could be checked works.";
  return failed === 1 ? "One check failed." : `${failed} checks failed.`;
};

/** @returns 1 where a check has failed */
export const exitCodeOf = (results: readonly CheckResult[]): 0 | 1 =>
  results.some(({ status }) => status === "failed") ? 1 : 0;
