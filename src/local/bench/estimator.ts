/** How near estimates come to what a provider counts (E3, E4), beside characters / 4 and a byte-pair tokenizer. */
import { countTokens as bytePairTokens } from "gpt-tokenizer/encoding/o200k_base";
import { type Calibration, observe, project } from "../../context/calibration.ts";
import { estimateTokens } from "../../context/estimate.ts";
import { defaultEstimator, estimateRequest, estimateRow } from "../../context/estimate-request.ts";
import {
  type CountedRequest,
  readingsFolder,
  readRequests,
  readScripts,
  readSession,
  readSteps,
  type Step,
} from "./readings.ts";

/** A way of counting: of the content of messages as the model's tokenizer would. */
interface Counter {
  readonly name: string;
  readonly row: (content: string, model: string) => number;
  readonly request: (counted: CountedRequest) => number;
}

const bytePair = (text: string): number => bytePairTokens(text, { disallowedSpecial: new Set() });

export const COUNTERS: readonly Counter[] = [
  {
    name: "hango",
    row: (content, model) => defaultEstimator.scale(model) * estimateRow(content),
    request: ({ request }) => estimateRequest(request).tokens,
  },
  {
    name: "characters / 4",
    row: (content) => content.length / 4,
    request: ({ body }) => body.length / 4,
  },
  { name: "byte pairs (o200k)", row: bytePair, request: ({ body }) => bytePair(body) },
];

const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};

const relative = (estimate: number, reading: number): number => Math.abs(estimate / reading - 1);

const percent = (share: number): string => (Number.isNaN(share) ? "-" : `${(share * 100).toFixed(1)} %`);

const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

const table = (head: readonly string[], rows: readonly (readonly string[])[]): void => {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join("  ");
  say(line(head));
  for (const row of rows) say(line(row));
  say("");
};

const sum = (texts: readonly string[], count: (text: string) => number): number =>
  texts.reduce((total, text) => total + count(text), 0);

/** Relative errors of the growth from one call to the next, one for each step that grew and holds no media. */
export const growthErrors = (steps: readonly Step[], counter: Counter): readonly number[] =>
  steps
    .filter(({ before, after, media }) => after > before && !media)
    .map(({ before, after, added, model }) =>
      relative(
        sum(added, (text) => counter.row(text, model)),
        after - before,
      ),
    );

/** A step has to grow the prompt by this share to count as one that estimates matter for. */
const LARGE_STEP = 0.05;

/**
 * Relative errors of the size of the next call, projected from the reading before it with what was learned in the session so far (E4),
 * for steps that grow by more than 5 %.
 */
export const nextCallErrors = (steps: readonly Step[], counter: Counter, calibrate: boolean): readonly number[] => {
  const errors: number[] = [];
  let calibration: Calibration | null = null;
  let session = "";
  let estimate = 0;
  for (const step of steps) {
    if (step.session !== session) {
      session = step.session;
      calibration = null;
      estimate = step.before;
    }
    // What the log does not show, its system prompt and tools, stands in both estimates; growth is all that counts.
    const { model, before: reading } = step;
    calibration = observe(calibration, { model, revision: 0, estimate, reading });
    const added = sum(step.added, (text) => counter.row(text, model));
    estimate += added;
    if (step.after <= (1 + LARGE_STEP) * reading || step.media) continue;
    const tokens = calibrate ? project(calibration, { model, revision: 0, estimate }).tokens : reading + added;
    errors.push(relative(tokens, step.after));
  }
  return errors;
};

/** The ratio of an estimate to the byte-pair tokenizer's count. */
export const scriptRatio = (text: string): number => estimateTokens(text) / bytePair(text);

/** Rates of one core, by the time that this process was given: other processes do not count. */
const megabytesPerSecond = (text: string): number => {
  const bytes = Buffer.byteLength(text);
  const start = process.cpuUsage();
  let runs = 0;
  let micros = 0;
  while (micros < 300_000) {
    estimateTokens(text);
    runs++;
    const { user, system } = process.cpuUsage(start);
    micros = user + system;
  }
  return (bytes * runs) / micros;
};

/** What has to hold (issue: the context window, 8). */
const MAX_GROWTH_ERROR = 0.1;
const MAX_SCRIPT_ERROR = 0.15;
const MIN_MEGABYTES_PER_SECOND = 100;

const ABSOLUTE_FROM_TOKENS = [2_000, 500] as const;

const benchGrowth = (steps: readonly Step[]): boolean => {
  const sessions = [...new Set(steps.map(({ session }) => session))];
  say(
    "Growth between calls, median relative error (weights were fitted with these sessions among others; token-weights.ts)",
  );
  const rows = [...sessions, "all"].map((session) => {
    const own = session === "all" ? steps : steps.filter((step) => step.session === session);
    const errors = COUNTERS.map((counter) => growthErrors(own, counter));
    return [session, String(errors[0]?.length ?? 0), ...errors.map((each) => percent(median(each)))];
  });
  table(["session", "steps", ...COUNTERS.map(({ name }) => name)], rows);
  const [hango] = COUNTERS;
  return hango !== undefined && median(growthErrors(steps, hango)) <= MAX_GROWTH_ERROR;
};

const benchNextCall = (steps: readonly Step[]): boolean => {
  say("Next call after one reading, steps that grow by more than 5 %, relative error of the projected size");
  const rows = COUNTERS.map((counter, index) => ({
    name: counter.name,
    errors: nextCallErrors(steps, counter, index === 0),
  }));
  table(
    ["", "steps", "median"],
    rows.map(({ name, errors }) => [name, String(errors.length), percent(median(errors))]),
  );
  const [ours, characters] = rows.map(({ errors }) => median(errors));
  return ours !== undefined && characters !== undefined && ours <= characters / 2;
};

const benchAbsolute = (requests: readonly CountedRequest[]): void => {
  say("Whole requests before any reading, without media and server tools, median relative error");
  const rows = ABSOLUTE_FROM_TOKENS.map((from) => {
    const own = requests.filter(({ tokens }) => tokens >= from);
    const errors = COUNTERS.map((counter) => own.map((each) => relative(counter.request(each), each.tokens)));
    return [`from ${from} tokens`, String(own.length), ...errors.map((each) => percent(median(each)))];
  });
  table(["", "requests", ...COUNTERS.map(({ name }) => name)], rows);
};

const benchScripts = (): boolean => {
  say("Other scripts, ratio to the byte-pair tokenizer (o200k); no provider's counts are at hand for them");
  const ratios = Object.entries(readScripts()).map(([name, text]) => [name, scriptRatio(text)] as const);
  table(
    ["", "hango", "characters / 4"],
    ratios.map(([name, ratio]) => {
      const text = readScripts()[name] ?? "";
      return [name, ratio.toFixed(2), (text.length / 4 / bytePair(text)).toFixed(2)];
    }),
  );
  return ratios.every(([, ratio]) => relative(ratio, 1) <= MAX_SCRIPT_ERROR);
};

const benchRate = (folder: string, session: string): boolean => {
  const texts = [
    ["recorded session", readSession(folder, session)],
    ["other scripts", Object.values(readScripts()).join("\n").repeat(20)],
  ] as const;
  const rates = texts.map(([name, text]) => [name, megabytesPerSecond(text)] as const);
  say("Throughput on one core");
  table(
    ["", "MB/s"],
    rates.map(([name, rate]) => [name, rate.toFixed(0)]),
  );
  return rates.every(([, rate]) => rate >= MIN_MEGABYTES_PER_SECOND);
};

/** Prints the tables; answers whether what has to hold does. */
export const benchEstimator = (): boolean => {
  const folder = readingsFolder();
  const steps = readSteps(folder);
  say(`Estimator, against ${steps.length} readings\n`);
  benchAbsolute(readRequests(folder));
  const held = [benchGrowth(steps), benchNextCall(steps), benchScripts(), benchRate(folder, steps[0]?.session ?? "")];
  say(held.every(Boolean) ? "estimator: all of it holds" : "estimator: something does not hold");
  return held.every(Boolean);
};
