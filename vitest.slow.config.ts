import { defineConfig } from "vitest/config";

// What takes long for what it holds: many objects, many rows, many turns. Run in CI beside `npm test`.
export default defineConfig({
  test: {
    include: ["test/slow/**/*.test.ts"],
    globalSetup: ["test/support/build-global.ts", "test/support/postgres-global.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
});
