/** The doctor of a deployed Worker: its own answer, asked for with the operator's key. */
import { z } from "zod";
import { shown, unreachable } from "../../turns/doctor/check.ts";

/** What is shown of a check, whichever version of hango the Worker has. */
const answerSchema = z.object({
  checks: z.array(z.object({ name: z.string(), status: z.enum(["ok", "failed", "skipped"]), detail: z.string() })),
});

export interface Shown {
  readonly name: string;
  readonly status: "ok" | "failed" | "skipped";
  readonly detail: string;
}

export interface ThereOptions {
  /** Address of the Worker, as it was typed. */
  readonly url: string;
  readonly adminKey: string | undefined;
  readonly fetch: typeof fetch;
  /** Of the whole answer: longer than the Worker gives one of its checks. */
  readonly timeoutMs: number;
}

/** Time for the Worker's checks and the way there and back, in ms. */
export const ANSWER_TIMEOUT_MS = 30_000;

const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"]);

/** What is wrong with an address that was typed; undefined for one that can be asked. The key goes there, so it must be encrypted. */
export const addressProblem = (typed: string): string | undefined => {
  const url = URL.parse(typed);
  if (url === null || !["http:", "https:"].includes(url.protocol) || url.hostname === "")
    return "is no address: give one like https://hango.example.com";
  if (url.username !== "" || url.password !== "") return "holds a user or password: the key goes into HANGO_ADMIN_KEY";
  if (url.protocol === "http:" && !LOOPBACK.has(url.hostname))
    return "is not encrypted, and the operator's key would go there: use https://";
  return undefined;
};

const byStatus = (status: number): string => {
  if (status === 401) return "refused the key (401): set HANGO_ADMIN_KEY to the one that the Worker was given";
  if (status === 403) return "wants the operator's key (403): set HANGO_ADMIN_KEY, not a tenant's key";
  if (status === 404) return "has no /v1/doctor (404): is hango there, and of this version?";
  if (status >= 300 && status < 400) return `redirects (${status}): give the address that it redirects to`;
  if (status >= 500)
    return `failed (${status}): where its configuration is wrong, \`wrangler tail\` shows a line that names each problem`;
  return `answered ${status}: is hango there?`;
};

/** Asks the Worker. What keeps it from answering is a failed check of its own, named `worker`. */
export const examineThere = async (options: ThereOptions): Promise<readonly Shown[]> => {
  const failed = (detail: string): readonly Shown[] => [{ name: "worker", status: "failed", detail }];
  const problem = addressProblem(options.url);
  if (problem !== undefined) return failed(`the address ${problem}`);
  if ((options.adminKey ?? "") === "")
    return failed("HANGO_ADMIN_KEY is not set: the Worker tells this only its operator");
  const at = shown(options.url);
  try {
    const response = await options.fetch(`${at}/v1/doctor`, {
      headers: { Authorization: `Bearer ${options.adminKey}` },
      redirect: "manual",
      signal: AbortSignal.timeout(options.timeoutMs),
    });
    const body = await response.text();
    if (response.status !== 200) return failed(`${at} ${byStatus(response.status)}`);
    const answer = answerSchema.safeParse(parse(body));
    if (!answer.success) return failed(`${at} answered with something else than a doctor's findings: is hango there?`);
    return answer.data.checks;
  } catch (error) {
    const late = error instanceof Error && error.name === "TimeoutError";
    return failed(`${at} ${late ? `did not answer within ${options.timeoutMs / 1_000} s` : unreachable(error)}`);
  }
};

const parse = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
};
