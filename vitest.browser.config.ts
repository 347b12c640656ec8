import { defineConfig } from "vitest/config";

// Pages as a browser shows them: Debian's chromium, which is installed where it is missing.
export default defineConfig({
  test: {
    include: ["test/browser/**/*.test.ts"],
    globalSetup: ["test/browser/chromium-global.ts"],
    testTimeout: 60_000,
    // Each file starts a platform of its own.
    hookTimeout: 240_000,
    maxWorkers: 1,
  },
});
