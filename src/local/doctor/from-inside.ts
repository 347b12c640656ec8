/** The doctor of a hango that runs: asked over its API, so that everything is looked at from where it is used. */
import { z } from "zod";
import { type CheckResult, checkNames, checkStatuses } from "../../turns/doctor/check.ts";

export interface FromInside {
  /** Base address of the deployment. */
  readonly url: string;
  /** The operator's key. */
  readonly adminKey: string;
  readonly fetch: typeof fetch;
  readonly timeoutMs: number;
}

/** No report could be had. The message says why, and what would help. */
export class NoReport extends Error {
  override readonly name = "NoReport";
}

const reportSchema = z.object({
  checks: z.array(z.object({ name: z.enum(checkNames), status: z.enum(checkStatuses), detail: z.string() })),
});

const adviceOf = (status: number, origin: string): string => {
  if (status === 401 || status === 403) return "HANGO_ADMIN_KEY is not the operator's key of this deployment";
  if (status === 404 || status === 405)
    return "there is no doctor at this address: it is no hango, or one of an older version";
  if (status >= 500)
    return `it failed before it could be asked: its configuration is wrong, or it is down; see its logs (npx wrangler tail)`;
  return `see ${origin}/healthz`;
};

/**
 * Asks a running hango.
 * @throws NoReport when it cannot be reached, refuses the key, or is none
 */
export const checkFromInside = async ({
  url,
  adminKey,
  fetch,
  timeoutMs,
}: FromInside): Promise<readonly CheckResult[]> => {
  const base = URL.parse(url);
  if (base === null || !["http:", "https:"].includes(base.protocol))
    throw new NoReport(`${JSON.stringify(url)} is no address; expected one like https://hango.example.com`);
  const response = await fetch(`${base.origin}/v1/doctor`, {
    method: "POST",
    headers: { Authorization: `Bearer ${adminKey}` },
    // A key is not carried on to wherever somebody points.
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  }).catch(() => {
    throw new NoReport(`nothing answers at ${base.origin}`);
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw new NoReport(`${base.origin} answered ${response.status}: ${adviceOf(response.status, base.origin)}`);
  }
  const report = reportSchema.safeParse(await response.json().catch(() => undefined));
  if (!report.success) throw new NoReport(`${base.origin} answered with something that is no report: is it hango?`);
  return report.data.checks;
};
