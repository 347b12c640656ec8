import { defineConfig } from "vitest/config";

// Two workers: the machines this must pass on have two cores, and workerd and Postgres run beside them.
export default defineConfig({
  test: {
    include: ["test/unit/**/*.test.ts", "test/worker/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
