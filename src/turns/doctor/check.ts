/**
 * What the doctor is made of: checks that each say in one line whether something works. They run in the Worker and on the operator's machine, so
 * whatever they ask is handed to them. No line holds a secret, or an address with one.
 */

/** What is checked, in the order in which it is shown. */
export const checkNames = [
  "configuration",
  "database",
  "migrations",
  "files",
  "queue",
  "provider",
  "chat",
  "telemetry",
] as const;

export type CheckName = (typeof checkNames)[number];

export const checkStatuses = ["ok", "failed", "skipped"] as const;

export interface CheckResult {
  readonly name: CheckName;
  readonly status: (typeof checkStatuses)[number];
  /** What was found, or what is wrong and what would help. One line. */
  readonly detail: string;
}

/** Something does not work. The message is shown: it says what, and what to do. */
export class CheckFailed extends Error {
  override readonly name = "CheckFailed";
}

/** There is nothing to check, or no way to. The message is shown: it says why. */
export class CheckSkipped extends Error {
  override readonly name = "CheckSkipped";
}

export interface Check {
  readonly name: CheckName;
  /** After which it counts as failed. */
  readonly timeoutMs: number;
  /**
   * Looks, and answers with what is shown.
   * @param signal aborts at the time-out
   * @throws CheckFailed, CheckSkipped; of anything else only the name is shown
   */
  readonly look: (signal: AbortSignal) => Promise<string>;
}

const outcomeOf = (error: unknown, { timeoutMs }: Check, late: boolean): Pick<CheckResult, "status" | "detail"> => {
  if (error instanceof CheckSkipped) return { status: "skipped", detail: error.message };
  if (error instanceof CheckFailed) return { status: "failed", detail: error.message };
  if (late) return { status: "failed", detail: `no answer within ${timeoutMs / 1000} s` };
  return { status: "failed", detail: `an unexpected error: ${error instanceof Error ? error.name : typeof error}` };
};

/** Makes one check. Never rejects, and never takes longer than the check's time-out. */
export const runCheck = async (check: Check): Promise<CheckResult> => {
  const signal = AbortSignal.timeout(check.timeoutMs);
  const late = new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  try {
    return { name: check.name, status: "ok", detail: await Promise.race([check.look(signal), late]) };
  } catch (error) {
    return { name: check.name, ...outcomeOf(error, check, signal.aborted) };
  }
};

/** Makes checks side by side. @returns their results, in the order of the checks */
export const runChecks = (checks: readonly Check[]): Promise<readonly CheckResult[]> =>
  Promise.all(checks.map(runCheck));

/** The host of an address, without what else may stand in it. */
export const hostOf = (url: string): string => URL.parse(url)?.host ?? "(no address)";
