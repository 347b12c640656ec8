/** Writes `docs/grafana/hango.json` from the list of panels; with `--check` says whether it is what the list says. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { dashboardOf } from "./dashboard/grafana.ts";
import { JOB_METRIC, rows } from "./dashboard/panels.ts";

const PATH = join(import.meta.dirname, "../../docs/grafana/hango.json");

/** The whole file. */
export const renderDashboard = (): string => `${JSON.stringify(dashboardOf(rows, JOB_METRIC), null, 2)}\n`;

if (import.meta.main) {
  const wanted = renderDashboard();
  if (!process.argv.includes("--check")) await writeFile(PATH, wanted);
  else if ((await readFile(PATH, "utf8").catch(() => "")) !== wanted) {
    console.error("docs/grafana/hango.json is not what src/local/dashboard says; run `npm run docs:dashboard`.");
    process.exitCode = 1;
  }
}
