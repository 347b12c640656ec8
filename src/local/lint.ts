/** `npm run lint`: everything that is checked without running the product. */
import { inWords, runStep, type Step, type StepResult } from "./steps.ts";

const STEPS: readonly Step[] = [
  { name: "biome", command: ["biome", "ci", "--reporter=default", "."] },
  { name: "sql", command: ["src/local/lint-sql.ts"] },
  { name: "docs:config", command: ["src/local/docs-config.ts", "--check"] },
  { name: "docs:errors", command: ["src/local/docs-errors.ts", "--check"] },
  { name: "docs:metrics", command: ["src/local/docs-metrics.ts", "--check"] },
  { name: "docs:dashboard", command: ["src/local/docs-dashboard.ts", "--check"] },
];

const results: StepResult[] = [];
for (const step of STEPS) results.push(await runStep(step, () => performance.now()));
for (const result of results) console.log(inWords(result));
if (results.some(({ exitCode }) => exitCode !== 0)) process.exitCode = 1;
