/** What every check of the doctor is: asked side by side, each with a time-out of its own, and answered in words that hold no secret. */

/** In the order in which they are shown. */
export const checkNames = [
  "configuration",
  "database",
  "migrations",
  "r2",
  "queue",
  "provider",
  "chat",
  "otlp",
] as const;

export type CheckName = (typeof checkNames)[number];

export interface Finding {
  readonly status: "ok" | "failed" | "skipped";
  /** One line: what was found, and where it failed what to do. */
  readonly detail: string;
}

export interface CheckResult extends Finding {
  readonly name: CheckName;
  readonly durationMs: number;
}

export interface Check {
  readonly name: CheckName;
  /**
   * Asks. What it throws becomes a failure in general words: an error's own message may hold an address or a key.
   * @param signal aborts when the check's time is over
   */
  readonly run: (signal: AbortSignal) => Promise<Finding>;
}

export const ok = (detail: string): Finding => ({ status: "ok", detail });
export const failed = (detail: string): Finding => ({ status: "failed", detail });
export const skipped = (detail: string): Finding => ({ status: "skipped", detail });

/** Longest time of one check, in ms: somebody waits, and what takes longer is of no use to a turn either. */
export const CHECK_TIMEOUT_MS = 10_000;

export interface CheckOptions {
  /** Ms, of a clock that never goes back. */
  readonly now: () => number;
  readonly timeoutMs: number;
}

/** A code such as `ECONNREFUSED`, from an error or what caused it. */
const systemCode = (error: unknown): string | undefined => {
  for (let at: unknown = error, depth = 0; typeof at === "object" && at !== null && depth < 4; depth++) {
    const code: unknown = Reflect.get(at, "code");
    if (typeof code === "string" && /^E[A-Z_]+$/.test(code)) return code;
    at = Reflect.get(at, "cause");
  }
  return undefined;
};

/** What became of something that could not be asked: its kind, never its message. */
export const unreachable = (error: unknown): string => {
  const code = systemCode(error);
  return `cannot be reached${code === undefined ? "" : ` (${code})`}`;
};

const runOne = async (check: Check, { now, timeoutMs }: CheckOptions): Promise<CheckResult> => {
  const startedMs = now();
  const signal = AbortSignal.timeout(timeoutMs);
  const late = new Promise<Finding>((resolve) => {
    signal.addEventListener("abort", () => resolve(failed(`no answer within ${timeoutMs / 1_000} s`)));
  });
  const asked = check.run(signal).catch((error: unknown) => failed(unreachable(error)));
  const finding = await Promise.race([asked, late]);
  return { name: check.name, ...finding, durationMs: Math.round(now() - startedMs) };
};

/** Runs the checks side by side; never rejects. The results are in the order of the checks. */
export const runChecks = (checks: readonly Check[], options: CheckOptions): Promise<readonly CheckResult[]> =>
  Promise.all(checks.map((check) => runOne(check, options)));

/** An address as it may be shown: without user, password, query and fragment. */
export const shown = (address: string): string => {
  const url = URL.parse(address);
  return url === null ? "(no address)" : `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
};

/** An address with a path below it. */
export const below = (base: string, path: string): string => `${base.replace(/\/+$/, "")}${path}`;

/** Whether an address names a user or a password, which `fetch` refuses. */
export const hasCredentials = (address: string): boolean => {
  const url = URL.parse(address);
  return url !== null && (url.username !== "" || url.password !== "");
};
