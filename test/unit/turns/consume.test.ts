import { describe, expect, it } from "vitest";
import type { SessionId, TenantId } from "../../../src/protocol/ids.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { recordingMeter } from "../../../src/telemetry/meter.ts";
import { recordingTracer } from "../../../src/telemetry/recording.ts";
import { consume } from "../../../src/turns/consume.ts";
import type { Deps } from "../../../src/turns/deps.ts";
import type { QueueMessage } from "../../../src/turns/queue.ts";

/** The only part of the dependencies that the door itself uses. */
const meter = recordingMeter();
const tracer = recordingTracer();
const deps = {
  meter,
  tracer,
  log: createLog({ level: "error", sink: () => undefined, traceIds: () => undefined }),
} as unknown as Deps;

const erase = (sessionId: string): QueueMessage => ({
  v: 1,
  type: "erase_objects",
  tenantId: "tnt_1" as TenantId,
  sessionId: sessionId as SessionId,
});

/** A batch as the platform hands it over, and what was said of each message. */
const batchOf = (bodies: readonly unknown[], queue = "hango-work", attempts = 1) => {
  const said: string[] = [];
  const messages = bodies.map((body, index) => ({
    id: String(index),
    timestamp: new Date(0),
    body,
    attempts,
    ack: () => said.push(`${index} ack`),
    retry: (options?: { delaySeconds?: number }) => said.push(`${index} retry ${options?.delaySeconds}`),
  }));
  return {
    said,
    batch: { queue, messages, ackAll: () => undefined, retryAll: () => undefined } as unknown as MessageBatch,
  };
};

const failing = { erase_objects: async () => Promise.reject(new Error("no")) };

describe("the queue door", () => {
  it("does each message on its own: one that fails is given back and blocks no other", async () => {
    const done: string[] = [];
    const handlers = {
      erase_objects: async (_: Deps, { sessionId }: { sessionId: string }) => {
        if (sessionId === "poison") throw new Error("no");
        done.push(sessionId);
      },
    };
    const { batch, said } = batchOf([erase("a"), erase("poison"), erase("b")]);
    await consume(deps, batch, { handlers, givenUp: {} });
    expect(done).toEqual(["a", "b"]);
    expect(said).toEqual(["0 ack", "1 retry 30", "2 ack"]);
  });

  it.each([
    [1, 30],
    [2, 60],
    [3, 120],
    [4, 240],
    [5, 480],
    [6, 600],
    [40, 600],
  ])("after %i deliveries waits %i s", async (attempts, seconds) => {
    const { batch, said } = batchOf([erase("a")], "hango-work", attempts);
    await consume(deps, batch, { handlers: failing, givenUp: {} });
    expect(said).toEqual([`0 retry ${seconds}`]);
  });

  it("gives each message a span of its own in the trace of its sender, failed where it failed", async () => {
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    const { batch } = batchOf([{ ...erase("traced"), traceparent }], "hango-traced");
    await consume(deps, batch, { handlers: failing, givenUp: {} });
    expect(tracer.only("process hango-traced")).toMatchObject({
      kind: "consumer",
      remoteParent: traceparent,
      error: "Error",
      attributes: {
        "messaging.system": "cloudflare_queues",
        "messaging.operation.type": "process",
        "messaging.destination.name": "hango-traced",
        "messaging.message.id": "0",
        "hango.queue.message.type": "erase_objects",
      },
    });
  });

  it.each([
    ["hango-dead", true],
    ["hango-dead-staging", true],
    ["hango-deadline", false],
    ["hango-work", false],
  ])("takes the messages of %s for given up: %s", async (queue, isDead) => {
    const { batch, said } = batchOf([erase("a")], queue);
    await consume(deps, batch, { handlers: failing, givenUp: {} });
    expect(said).toEqual([isDead ? "0 ack" : "0 retry 30"]);
  });

  it("counts what was given up by its type, and what nobody knows as unknown", async () => {
    const before = meter.points.length;
    const { batch } = batchOf([erase("a"), { v: 2 }], "hango-dead");
    await consume(deps, batch, { handlers: { erase_objects: async () => undefined }, givenUp: {} });
    expect(meter.points.slice(before)).toEqual([
      { name: "hango.queue.dead_letters", value: 1, attributes: { "hango.queue.message.type": "erase_objects" } },
      { name: "hango.queue.dead_letters", value: 1, attributes: { "hango.queue.message.type": "unknown" } },
    ]);
  });

  it.each([
    ["of another version", { ...erase("a"), v: 2 }],
    ["of an unknown type", { ...erase("a"), type: "dance" }],
    ["named like a member of every object", { ...erase("a"), type: "toString" }],
    ["that is no object", "erase_objects"],
    ["that is null", null],
  ])("acknowledges a message %s, which another Worker may know, instead of wearing it out", async (_name, body) => {
    const { batch, said } = batchOf([body]);
    await consume(deps, batch, { handlers: failing, givenUp: {} });
    expect(said).toEqual(["0 ack"]);
  });

  it("puts what a dead letter stood for into a state that shows it, and tries that again where it fails", async () => {
    const given: string[] = [];
    const givenUp = {
      erase_objects: async (_: Deps, { sessionId }: { sessionId: string }) => {
        given.push(sessionId);
        if (sessionId === "later") throw new Error("no");
      },
    };
    const { batch, said } = batchOf([erase("a"), erase("later"), { v: 1, type: "compact_backlog" }], "hango-dead");
    await consume(deps, batch, { handlers: { ...failing, compact_backlog: async () => undefined }, givenUp });
    expect(given).toEqual(["a", "later"]);
    expect(said).toEqual(["0 ack", "1 retry 30", "2 ack"]);
  });

  it.each([
    ["hango-dead", true],
    ["hango-dead-staging", true],
    ["hango-deadline", false],
    ["hango-work-staging", false],
  ])("takes what comes from %s for dead letters: %s", async (queue, dead) => {
    const went: string[] = [];
    const by = (name: string) => ({ erase_objects: async () => void went.push(name) });
    await consume(deps, batchOf([erase("a")], queue).batch, { handlers: by("work"), givenUp: by("given up") });
    expect(went).toEqual([dead ? "given up" : "work"]);
  });
});
