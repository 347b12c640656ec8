import { defineConfig } from "vitest/config";

// Long runs over random sessions, apart from `npm test`; a file for each of two cores.
export default defineConfig({
  test: { name: "deep", include: ["test/deep/**/*.test.ts"], maxWorkers: 2 },
});
