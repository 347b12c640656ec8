import { defineConfig } from "vitest/config";

// Two workers: the machines this must pass on have two cores, and workerd and Postgres run beside them.
export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["test/unit/**/*.test.ts"], globalSetup: "test/support/postgres-global.ts" },
      },
      {
        extends: true,
        test: {
          name: "worker",
          include: ["test/worker/**/*.test.ts"],
          globalSetup: ["test/support/build-global.ts", "test/support/postgres-global.ts"],
        },
      },
    ],
  },
});
