import { describe, expect, it } from "vitest";
import { ModelError } from "../../../src/models/errors.ts";
import { profileFor } from "../../../src/models/profiles.ts";
import type { Provider } from "../../../src/models/provider.ts";
import { noTelemetry } from "../../../src/telemetry/none.ts";
import { noopSpan } from "../../../src/telemetry/tracer.ts";
import { HandedOver, RunCancelled, TurnTimedOut } from "../../../src/turns/failure.ts";
import { summariserPort } from "../../../src/turns/summariser-port.ts";

const provider: Provider = {
  name: "anthropic",
  capabilities: { promptCaching: true, tokenCounting: false, strictAlternation: false, thinking: "signed" },
  generate: async () => {
    throw new Error("nobody asks");
  },
  countTokens: async () => 0,
  modelInfo: async () => undefined,
};

/** @param reason what ended the run; undefined while it goes on */
const failureOf = (error: unknown, reason?: unknown) => {
  const ending = new AbortController();
  if (reason !== undefined) ending.abort(reason);
  return summariserPort({
    provider,
    model: "m",
    profile: profileFor("m", new Map()),
    telemetry: { ...noTelemetry, now: () => 0 },
    span: noopSpan,
    signal: ending.signal,
    now: () => 0,
    deadlineMs: 1,
    addApart: () => undefined,
    onProviderTime: () => undefined,
    heartbeat: () => undefined,
  }).failureOf(error);
};

const aborted = new ModelError({ kind: "aborted" }, {});

describe("the class of a summary's failure (G1)", () => {
  it.each([
    [{ kind: "timeout", what: "idle" }, "timeout"],
    [{ kind: "stream_cut" }, "malformed"],
    [{ kind: "network" }, "network"],
    [{ kind: "overloaded" }, "overloaded"],
    [{ kind: "rate_limited" }, "overloaded"],
    [{ kind: "authentication" }, "authentication"],
    [{ kind: "quota" }, "quota"],
    [{ kind: "not_found" }, "configuration"],
    [{ kind: "server" }, "transient"],
  ] as const)("of %j is %s", (failure, expected) => {
    expect(failureOf(new ModelError(failure, {}))).toBe(expected);
  });

  it.each([
    ["a hard cancel", new RunCancelled()],
    ["a hand-over", new HandedOver()],
  ])("is none where %s ended the run: it says nothing of the summariser", (_name, reason) => {
    expect(failureOf(aborted, reason)).toBe(null);
  });

  it("is a time-out where the turn's time was over: the next turn must not begin the same at once", () => {
    expect(failureOf(aborted, new TurnTimedOut(1))).toBe("timeout");
  });
});
