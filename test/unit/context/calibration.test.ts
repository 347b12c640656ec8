import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  afterRevision,
  type Calibration,
  MAX_FACTOR,
  MIN_FACTOR,
  newCalibration,
  observe,
  parseCalibration,
  project,
  type Reading,
} from "../../../src/context/calibration.ts";

const MODEL = "claude-sonnet-4-5";
const read = (estimate: number, reading: number, revision = 0, model = MODEL): Reading => ({
  model,
  revision,
  estimate,
  reading,
});
const observed = (...readings: readonly Reading[]): Calibration =>
  readings.reduce<Calibration>((calibration, each) => observe(calibration, each), newCalibration(MODEL));

describe("calibration by readings (E4)", () => {
  it("projects the reading plus the growth since", () => {
    const calibration = observed(read(10_000, 14_000));
    expect(project(calibration, { model: MODEL, revision: 0, estimate: 12_000 })).toEqual({
      tokens: 16_000,
      basis: "reading",
    });
  });

  it("projects the estimate before the first reading", () => {
    const projection = { tokens: 12_000, basis: "estimate" };
    expect(project(null, { model: MODEL, revision: 0, estimate: 12_000 })).toEqual(projection);
    expect(project(newCalibration(MODEL), { model: MODEL, revision: 0, estimate: 12_000 })).toEqual(projection);
  });

  it("learns the factor from growth, a large one more than a small one", () => {
    const start = read(10_000, 14_000);
    const small = observed(start, read(11_000, 15_500));
    const large = observed(start, read(46_000, 68_000));
    expect([small.factor, large.factor, small.pairs]).toEqual([expect.closeTo(1.1), expect.closeTo(1.45), 1]);
    expect(project(large, { model: MODEL, revision: 0, estimate: 47_000 }).tokens).toBe(69_450);
  });

  it("keeps the factor within its bounds, whatever is read", () => {
    const size = fc.double({ min: -1e7, max: 1e7 });
    fc.assert(
      fc.property(fc.array(fc.tuple(size, size, fc.nat(2))), (readings) => {
        const calibration = observed(
          ...readings.map(([estimate, reading, revision]) => read(estimate, reading, revision)),
        );
        expect(calibration.factor).toBeGreaterThanOrEqual(MIN_FACTOR);
        expect(calibration.factor).toBeLessThanOrEqual(MAX_FACTOR);
      }),
    );
  });

  it("comes to a tokenizer that counts differently by the same share", () => {
    fc.assert(
      fc.property(fc.double({ min: 0.6, max: 1.8, noNaN: true }), (share) => {
        const steps = Array.from({ length: 12 }, (_, at) => (at + 1) * 8_000);
        const calibration = observed(...steps.map((estimate) => read(estimate, estimate * share + 500)));
        expect(calibration.factor).toBeCloseTo(share, 3);
      }),
    );
  });

  it("learns nothing from a pair of two revisions, but takes the newer reading as baseline", () => {
    expect(observed(read(10_000, 14_000), read(50_000, 90_000, 1))).toEqual({
      model: MODEL,
      factor: 1,
      pairs: 0,
      baseline: { estimate: 50_000, reading: 90_000, revision: 1 },
    });
  });

  it("ignores sizes that are none", () => {
    const before = observed(read(10_000, 14_000));
    for (const reading of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(observe(before, read(11_000, reading))).toEqual(before);
    }
  });

  it("drops the baseline at a revision that shrinks the view, and keeps the factor", () => {
    const before = observed(read(10_000, 14_000), read(46_000, 68_000));
    const after = afterRevision(before, { revision: 1, before: 46_000, after: 9_000 });
    expect(after).toEqual({ ...before, baseline: null });
    const { tokens, basis } = project(after, { model: MODEL, revision: 1, estimate: 9_000 });
    expect([tokens, basis]).toEqual([Math.ceil(9_000 * before.factor), "estimate"]);
  });

  it("keeps the baseline at a revision that does not", () => {
    const before = observed(read(10_000, 14_000));
    const after = afterRevision(before, { revision: 1, before: 10_000, after: 10_400 });
    expect(project(after, { model: MODEL, revision: 1, estimate: 10_400 })).toEqual({
      tokens: 14_400,
      basis: "reading",
    });
    expect(afterRevision(null, { revision: 1, before: 2, after: 1 })).toBeNull();
  });

  it("does not use a reading of a revision that it was not told of", () => {
    expect(project(observed(read(10_000, 14_000)), { model: MODEL, revision: 5, estimate: 3_000 })).toEqual({
      tokens: 3_000,
      basis: "estimate",
    });
  });

  it("starts anew with another model", () => {
    const before = observed(read(10_000, 14_000), read(46_000, 68_000));
    expect(project(before, { model: "claude-opus-4-8", revision: 0, estimate: 50_000 })).toEqual({
      tokens: 50_000,
      basis: "estimate",
    });
    expect(observe(before, read(50_000, 90_000, 0, "claude-opus-4-8"))).toEqual({
      model: "claude-opus-4-8",
      factor: 1,
      pairs: 0,
      baseline: { estimate: 50_000, reading: 90_000, revision: 0 },
    });
  });

  it("comes back from JSON as it was", () => {
    const stored = [newCalibration(MODEL), observed(read(10_000, 14_000), read(46_000, 68_000))];
    expect(stored.map((each) => parseCalibration(JSON.parse(JSON.stringify(each))))).toEqual(stored);
  });

  it("reads nothing from what is no calibration", () => {
    const stored = [
      null,
      undefined,
      1,
      "x",
      [],
      {},
      { model: 1, factor: 1, pairs: 0 },
      { model: "m", factor: 0, pairs: 0 },
    ];
    expect(stored.map(parseCalibration)).toEqual(stored.map(() => null));
    expect(parseCalibration({ model: "m", factor: 9, pairs: 1, baseline: { estimate: 1, reading: "2" } })).toEqual({
      model: "m",
      factor: MAX_FACTOR,
      pairs: 1,
      baseline: null,
    });
  });
});
