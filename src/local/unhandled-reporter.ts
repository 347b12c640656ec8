/** A vitest reporter that keeps the errors outside of tests, which the JSON report leaves out: they fail a run in which every test has passed. */
import { writeFile } from "node:fs/promises";

interface Unhandled {
  readonly name?: string;
  readonly message?: string;
  readonly VITEST_TEST_PATH?: string;
}

/** Where they are written, as a JSON array of lines. */
export const UNHANDLED_FILE = "HANGO_CI_UNHANDLED";

export const inWords = ({ name, message, VITEST_TEST_PATH: path }: Unhandled): string =>
  `${name ?? "Error"}: ${message ?? ""}${path === undefined ? "" : ` (while ${path} was running)`}`;

export default class UnhandledReporter {
  async onTestRunEnd(_modules: unknown, errors: readonly Unhandled[]): Promise<void> {
    const path = process.env[UNHANDLED_FILE];
    if (path !== undefined) await writeFile(path, JSON.stringify(errors.map(inWords)));
  }
}
