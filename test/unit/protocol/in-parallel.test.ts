import { describe, expect, it } from "vitest";
import { inParallel } from "../../../src/protocol/in-parallel.ts";

describe("work in parallel", () => {
  it("is done for every item, no more of it at once than allowed, its results in order", async () => {
    const gates = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
    let under = 0;
    let most = 0;
    const done = inParallel(["a", "b", "c", "d", "e"], 2, async (item) => {
      most = Math.max(most, ++under);
      await gates["abcde".indexOf(item)]?.promise;
      under--;
      return item.toUpperCase();
    });
    for (const gate of gates.toReversed()) gate.resolve();
    expect([await done, most]).toEqual([["A", "B", "C", "D", "E"], 2]);
  });

  it("fails with the first failure, and begins nothing more in its place", async () => {
    const begun: number[] = [];
    const failing = inParallel([1, 2, 3], 1, async (item) => {
      begun.push(item);
      if (item === 2) throw new Error("two");
    });
    await expect(failing).rejects.toThrow("two");
    expect(begun).toEqual([1, 2]);
  });

  it("is nothing for no items", async () => expect(await inParallel([], 4, async () => 1)).toEqual([]));
});
