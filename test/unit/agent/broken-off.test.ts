import { describe, expect, it } from "vitest";
import { isBrokenOff, waitBeforeMs } from "../../../src/agent/broken-off.ts";
import { type Failure, ModelError } from "../../../src/models/errors.ts";

describe("an answer that broke off", () => {
  it.each<readonly [Failure, number | undefined, boolean]>([
    [{ kind: "stream_cut" }, undefined, true],
    [{ kind: "overloaded" }, undefined, true],
    [{ kind: "server" }, undefined, true],
    // The SDK has made these again already, before an answer began.
    [{ kind: "overloaded" }, 529, false],
    [{ kind: "server" }, 500, false],
    [{ kind: "network" }, undefined, false],
    // Asking again cannot help, or is not ours to decide.
    [{ kind: "invalid_request" }, undefined, false],
    [{ kind: "aborted" }, undefined, false],
    [{ kind: "timeout", what: "deadline" }, undefined, false],
  ])("%j with status %s is asked for again: %s", (failure, status, expected) => {
    expect(isBrokenOff(new ModelError(failure, status === undefined ? {} : { status }))).toBe(expected);
  });

  it("is nothing that another error is", () => expect(isBrokenOff(new Error("stream_cut"))).toBe(false));

  it("is waited for longer the second time, and no longer after that", () =>
    expect([0, 1, 2, 9].map(waitBeforeMs)).toEqual([500, 2_000, 2_000, 2_000]));
});
