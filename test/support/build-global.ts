/** Bundles the Worker once before the tests that run it, so that test files do not race for it. */
import { buildWorker } from "../../src/local/build.ts";

export const setup = async (): Promise<void> => {
  await buildWorker();
};
