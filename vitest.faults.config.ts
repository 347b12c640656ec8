import { defineConfig } from "vitest/config";

// Workers that are killed and calls that fail, apart from `npm test`; a file for each of two cores.
export default defineConfig({
  test: {
    name: "faults",
    include: ["test/faults/**/*.test.ts"],
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    globalSetup: ["test/support/build-global.ts", "test/support/postgres-global.ts"],
  },
});
