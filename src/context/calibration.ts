/**
 * What readings teach about estimates (E4): the prompt size that the provider reported for a request, beside our estimate of that same
 * request, and from such pairs the factor between the two. One per session; plain data, stored as JSON.
 */
import { isRecord } from "../protocol/is-record.ts";

/** A request whose size was read, and the view revision that it was rendered with. */
export interface Baseline {
  readonly estimate: number;
  readonly reading: number;
  readonly revision: number;
}

export interface Calibration {
  readonly model: string;
  /** Tokens of the provider per token of ours, for what was added between two readings. */
  readonly factor: number;
  /** How many readings the factor has learned from. */
  readonly pairs: number;
  /** The newest reading, as long as the view has only grown since. */
  readonly baseline: Baseline | null;
}

/** A size in tokens and what it rests on. */
export interface Projection {
  readonly tokens: number;
  readonly basis: "reading" | "estimate" | "count";
}

export interface Reading {
  readonly model: string;
  /** The revision of the view that the request was rendered with. */
  readonly revision: number;
  /** Our estimate of the whole request, in tokens. */
  readonly estimate: number;
  /** `input + cache_read + cache_creation` of the same request. */
  readonly reading: number;
}

/**
 * Bounds of the factor. Real tokenizers are within 0.6 and 1.6 of the estimate on every sort of text that was measured (the bench prints
 * them); what is beyond comes from tokens that are not in the request, such as those of server tools.
 */
export const MIN_FACTOR = 0.5;
export const MAX_FACTOR = 2;

/** Growth, in tokens, at which a pair weighs as much as everything learned before. */
const HALF_WEIGHT_GROWTH = 4_000;

/** Growth below it is mostly envelope and rounding, and teaches nothing. */
const MIN_GROWTH = 100;

/** A calibration that has learned nothing. */
export const newCalibration = (model: string): Calibration => ({ model, factor: 1, pairs: 0, baseline: null });

const bounded = (factor: number): number => Math.min(MAX_FACTOR, Math.max(MIN_FACTOR, factor));

const isSize = (value: number): boolean => Number.isFinite(value) && value > 0;

/** What is known about a model: another model's factor and reading say nothing about it (E4, G10). */
const known = (calibration: Calibration | null, model: string): Calibration =>
  calibration !== null && calibration.model === model ? calibration : newCalibration(model);

/** The factor after one more pair: a mean in which a large growth weighs more than a small one. */
const learned = (factor: number, growth: number, readGrowth: number): number => {
  const weight = growth / (growth + HALF_WEIGHT_GROWTH);
  return bounded(factor + weight * (bounded(readGrowth / growth) - factor));
};

/**
 * Takes in the reading of one request. Only this moves the baseline. The factor learns from the growth since the reading before, if both
 * are of one model and one revision; else the pair is dropped. A size that is no positive number leaves everything as it is.
 * @param calibration null before the first reading
 */
export const observe = (calibration: Calibration | null, read: Reading): Calibration => {
  const before = known(calibration, read.model);
  if (!isSize(read.reading) || !isSize(read.estimate)) return before;
  const baseline: Baseline = { estimate: read.estimate, reading: read.reading, revision: read.revision };
  const last = before.baseline;
  if (last === null || last.revision !== read.revision) return { ...before, baseline };
  const growth = read.estimate - last.estimate;
  const readGrowth = read.reading - last.reading;
  if (growth < MIN_GROWTH || readGrowth <= 0) return { ...before, baseline };
  return {
    model: read.model,
    factor: learned(before.factor, growth, readGrowth),
    pairs: before.pairs + 1,
    baseline,
  };
};

/**
 * The size of a request about to be sent: the newest reading plus what was added since, times the factor; without a usable reading, the
 * estimate times the factor.
 * @param next `estimate` on the same basis as the one that was observed: the whole request, by the same estimator
 */
export const project = (
  calibration: Calibration | null,
  next: { readonly model: string; readonly revision: number; readonly estimate: number },
): Projection => {
  const { factor, baseline } = known(calibration, next.model);
  if (baseline === null || baseline.revision !== next.revision) {
    return { tokens: Math.ceil(next.estimate * factor), basis: "estimate" };
  }
  const tokens = Math.ceil(baseline.reading + (next.estimate - baseline.estimate) * factor);
  return { tokens: Math.max(0, tokens), basis: "reading" };
};

/**
 * Follows a new revision of the view. One that shrinks the view drops the baseline, since the old reading must not trigger a second
 * compaction; one that does not (memory grew) keeps it. The factor stays in either case.
 * @param change the estimates of the request before and after the revision
 */
export const afterRevision = (
  calibration: Calibration | null,
  change: { readonly revision: number; readonly before: number; readonly after: number },
): Calibration | null => {
  if (calibration === null || calibration.baseline === null) return calibration;
  const baseline = change.after < change.before ? null : { ...calibration.baseline, revision: change.revision };
  return { ...calibration, baseline };
};

const parseBaseline = (value: unknown): Baseline | null => {
  if (!isRecord(value)) return null;
  const { estimate, reading, revision } = value;
  if (typeof estimate !== "number" || typeof reading !== "number" || typeof revision !== "number") return null;
  if (!isSize(estimate) || !isSize(reading) || !Number.isInteger(revision)) return null;
  return { estimate, reading, revision };
};

/**
 * A calibration as it was stored. Something unreadable costs accuracy, not the turn: null then, as before the first reading.
 * @param stored parsed JSON
 */
export const parseCalibration = (stored: unknown): Calibration | null => {
  if (!isRecord(stored)) return null;
  const { model, factor, pairs } = stored;
  if (typeof model !== "string" || typeof factor !== "number" || typeof pairs !== "number") return null;
  if (!isSize(factor) || !Number.isInteger(pairs) || pairs < 0) return null;
  return { model, factor: bounded(factor), pairs, baseline: parseBaseline(stored["baseline"]) };
};
