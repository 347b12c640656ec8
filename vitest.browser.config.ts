import { defineConfig } from "vitest/config";

// Pages as a browser shows them. Needs Debian's chromium; CI installs it.
export default defineConfig({
  test: {
    include: ["test/browser/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    maxWorkers: 1,
  },
});
