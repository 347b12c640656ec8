/** Bundles the Worker once before the tests that run it, so that test files do not race for it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { buildWorker } from "../../src/local/build.ts";

export const setup = async (): Promise<void> => {
  if (existsSync(join(import.meta.dirname, "../../src/worker.ts"))) await buildWorker();
};
