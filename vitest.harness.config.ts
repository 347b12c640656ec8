import { defineConfig } from "vitest/config";
import { MUTATIONS, mutated } from "./test/harness/mutations.ts";

const postgres = { globalSetup: ["test/support/postgres-global.ts"] };

// Sessions through a long life, apart from `npm test`; a file for each of two cores. Each mutation of the guards is a project of its own, with other
// text for one file.
export default defineConfig({
  test: {
    maxWorkers: 2,
    testTimeout: 900_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: "harness",
          include: ["test/harness/**/*.test.ts"],
          exclude: ["test/harness/mutant.test.ts"],
          ...postgres,
        },
      },
      ...MUTATIONS.map((mutation, index) => ({
        extends: true as const,
        plugins: [
          {
            name: `mutation ${index + 1}`,
            enforce: "pre" as const,
            transform: (text: string, path: string) => mutated(mutation, path, text),
          },
        ],
        test: {
          // Its key knows plugins by their names alone.
          fsModuleCache: false,
          name: `mutation ${index + 1}`,
          include: ["test/harness/mutant.test.ts"],
          env: { HANGO_HARNESS_MUTATION: String(index) },
          ...postgres,
        },
      })),
    ],
  },
});
