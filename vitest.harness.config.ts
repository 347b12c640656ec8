import { defineConfig } from "vitest/config";

// Sessions through a long life, apart from `npm test`; a file for each of two cores.
export default defineConfig({
  test: {
    name: "harness",
    include: ["test/harness/**/*.test.ts"],
    maxWorkers: 2,
    testTimeout: 900_000,
    hookTimeout: 60_000,
    globalSetup: ["test/support/postgres-global.ts"],
  },
});
