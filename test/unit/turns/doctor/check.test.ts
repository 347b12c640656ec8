import { describe, expect, it } from "vitest";
import { failed, hasCredentials, ok, runChecks, shown, skipped } from "../../../../src/turns/doctor/check.ts";

const options = { now: () => performance.now(), timeoutMs: 50 };

describe("the checks", () => {
  it("run side by side, and their results stand in their order", async () => {
    const begun: string[] = [];
    const both = Promise.withResolvers<void>();
    const waiting = (name: "database" | "queue") => ({
      name,
      run: async () => {
        begun.push(name);
        if (begun.length === 2) both.resolve();
        await both.promise;
        return ok(name);
      },
    });
    const results = await runChecks([waiting("database"), waiting("queue")], { ...options, timeoutMs: 20_000 });
    expect(results.map(({ name, status, detail }) => [name, status, detail])).toEqual([
      ["database", "ok", "database"],
      ["queue", "ok", "queue"],
    ]);
  });

  it("one that does not come to its end fails when its own time is over, and keeps no other waiting", async () => {
    const signals: AbortSignal[] = [];
    const results = await runChecks(
      [
        {
          name: "r2",
          run: (signal) => {
            signals.push(signal);
            return new Promise(() => undefined);
          },
        },
        { name: "otlp", run: async () => skipped("no collector") },
      ],
      options,
    );
    expect(results.map(({ status, detail }) => [status, detail])).toEqual([
      ["failed", "no answer within 0.05 s"],
      ["skipped", "no collector"],
    ]);
    expect(signals[0]?.aborted).toBe(true);
  });

  it("what they throw becomes a failure without its message, which may hold a secret", async () => {
    const secret = Object.assign(new Error("fetch https://user:hunter2@example.com failed"), {
      cause: { code: "ECONNREFUSED" },
    });
    const thrown = async (error: unknown) => {
      const [result] = await runChecks([{ name: "provider", run: () => Promise.reject(error) }], options);
      return result;
    };
    expect(await thrown(secret)).toMatchObject(failed("cannot be reached (ECONNREFUSED)"));
    expect(await thrown("hunter2")).toMatchObject(failed("cannot be reached"));
    expect(await thrown(Object.assign(new Error(), { code: "hunter2" }))).toMatchObject(failed("cannot be reached"));
  });

  it("take their time by the clock that they are given", async () => {
    let ms = 1_000;
    const check = {
      name: "database" as const,
      run: async () => {
        ms += 12.4;
        return ok("x");
      },
    };
    expect(await runChecks([check], { ...options, now: () => ms })).toEqual([
      { name: "database", status: "ok", detail: "x", durationMs: 12 },
    ]);
  });
});

describe("an address", () => {
  it.each([
    ["https://user:pass@otel.example.com/base/?token=x#y", "https://otel.example.com/base"],
    ["https://api.anthropic.com", "https://api.anthropic.com"],
    ["nonsense", "(no address)"],
  ])("%s is shown without what may be a secret", (address, words) => {
    expect(shown(address)).toBe(words);
  });

  it("is seen to hold a user or password", () => {
    expect(["https://a@x.org", "https://:b@x.org", "https://x.org", "nonsense"].map(hasCredentials)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});
