/** `npm run doctor`: whether what a deployment stands on works. One line a check; exit code 1 if any failed. */
import { examineHere } from "./doctor/here.ts";
import { exitCodeOf, lineOf } from "./doctor/report.ts";
import { ANSWER_TIMEOUT_MS, examineThere, type Shown } from "./doctor/there.ts";

const USAGE = `npm run doctor                              checks what the environment of this shell configures
npm run doctor -- https://hango.example.com  asks the deployed Worker, with its HANGO_ADMIN_KEY from the environment`;

const findingsFor = (url: string | undefined): Promise<readonly Shown[]> =>
  url === undefined
    ? examineHere({ env: process.env, fetch, now: () => performance.now() })
    : examineThere({ url, adminKey: process.env.HANGO_ADMIN_KEY, fetch, timeoutMs: ANSWER_TIMEOUT_MS });

const [url, ...others] = process.argv.slice(2);
if (others.length > 0 || url?.startsWith("-") === true) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const findings = await findingsFor(url);
  for (const finding of findings) console.log(lineOf(finding));
  process.exitCode = exitCodeOf(findings);
}
