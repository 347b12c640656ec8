/** Writes the tables of metrics in `docs/telemetry.md` from the list of instruments; with `--check` says whether they are what the list says. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Instrument, instruments, type MetricName } from "../telemetry/instruments.ts";
import { prometheusLabel, prometheusName } from "./prometheus-names.ts";

const PATH = join(import.meta.dirname, "../../docs/telemetry.md");

const BEGIN =
  "<!-- Generated from src/telemetry/instruments.ts by `npm run docs:metrics`. Change the list, not these tables. -->";
const END = "<!-- The end of what is generated. -->";

/** A cell of a table: a bar would end it. */
const cell = (text: string): string => text.replaceAll("|", "\\|");

const code = (text: string): string => `\`${text}\``;

const list = (texts: readonly string[]): string => (texts.length === 0 ? "none" : texts.map(code).join(", "));

const row = (name: MetricName, instrument: Instrument): string => {
  const { kind, unit, description, attributes } = instrument;
  const family = prometheusName(name, instrument);
  return `| ${code(name)} | ${kind} | ${code(unit)} | ${code(family)} | ${list(attributes)} | ${cell(description)} |`;
};

/** The three tables. */
export const renderMetrics = (): string => {
  const all = (Object.keys(instruments) as MetricName[]).map((name) => [name, instruments[name]] as const);
  const labels = [...new Set(all.flatMap(([, { attributes }]) => attributes))].toSorted();
  return [
    "| metric | kind | unit | in Prometheus | attributes | what it counts |",
    "| --- | --- | --- | --- | --- | --- |",
    ...all.map(([name, instrument]) => row(name, instrument)),
    "",
    "| histogram | upper bounds of its buckets, in its unit |",
    "| --- | --- |",
    ...all.flatMap(([name, { buckets }]) =>
      buckets === undefined ? [] : [`| ${code(name)} | ${buckets.join(", ")} |`],
    ),
    "",
    "| attribute | label in Prometheus |",
    "| --- | --- |",
    ...labels.map((name) => `| ${code(name)} | ${code(prometheusLabel(name))} |`),
  ].join("\n");
};

/**
 * The page with its tables brought up to date.
 * @throws Error where it does not have both marks once, in their order
 */
export const withMetrics = (page: string): string => {
  const [before, rest, ...moreBegins] = page.split(BEGIN);
  const [, after, ...moreEnds] = rest?.split(END) ?? [];
  if (before === undefined || after === undefined || moreBegins.length + moreEnds.length > 0)
    throw new Error(`docs/telemetry.md must have each of these lines once, in this order:\n${BEGIN}\n${END}`);
  return `${before}${BEGIN}\n\n${renderMetrics()}\n\n${END}${after}`;
};

if (import.meta.main) {
  const page = await readFile(PATH, "utf8");
  const wanted = withMetrics(page);
  if (!process.argv.includes("--check")) await writeFile(PATH, wanted);
  else if (page !== wanted) {
    console.error(
      "The tables of docs/telemetry.md are not what src/telemetry/instruments.ts says; run `npm run docs:metrics`.",
    );
    process.exitCode = 1;
  }
}
