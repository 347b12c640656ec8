/**
 * `npm run bench [-- PART...]`: measurements that say how good hango is, as tables on standard output. Without names, all parts run.
 * Exit code 1 when a part misses what it has to hold.
 */
import { benchEstimator } from "./bench/estimator.ts";
import { benchFlat } from "./bench/flat.ts";
import { benchLinear } from "./bench/linear.ts";
import { benchLoad } from "./bench/load.ts";
import { benchRecall } from "./bench/recall.ts";
import { benchTelemetry } from "./bench/telemetry.ts";

/** A measurement: prints its tables and answers whether everything held. */
type Part = () => boolean | Promise<boolean>;

const PARTS: Readonly<Record<string, Part>> = {
  estimator: benchEstimator,
  recall: benchRecall,
  linear: benchLinear,
  flat: benchFlat,
  load: benchLoad,
  telemetry: benchTelemetry,
};

const main = async (names: readonly string[]): Promise<number> => {
  const unknown = names.filter((name) => !Object.hasOwn(PARTS, name));
  if (unknown.length > 0) {
    process.stderr.write(`bench: no part ${unknown.join(", ")}; there are ${Object.keys(PARTS).join(", ")}\n`);
    return 2;
  }
  let held = true;
  for (const [name, part] of Object.entries(PARTS)) {
    if (names.length > 0 && !names.includes(name)) continue;
    held = (await part()) && held;
  }
  return held ? 0 : 1;
};

process.exitCode = await main(process.argv.slice(2));
