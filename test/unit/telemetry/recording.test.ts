import { describe, expect, test } from "vitest";
import { recordingTracer } from "../../../src/telemetry/recording.ts";
import { noopTracer } from "../../../src/telemetry/tracer.ts";

class OverflowError extends Error {
  override readonly name = "OverflowError";
}

describe("the recording tracer", () => {
  test("keeps a tree: children of what is active, or of the parent that was named", async () => {
    const tracer = recordingTracer();
    await tracer.span("turn", { kind: "server", attributes: { a: 1, none: undefined } }, async (turn) => {
      await tracer.span("chat", { kind: "client" }, async (chat) => {
        chat.addEvent("retry", { attempt: 2, none: undefined });
        await tracer.span("tool", { parent: turn, attributes: { names: ["x", "y"] } }, async () => undefined);
      });
      turn.setAttributes({ b: true, none: undefined });
    });
    expect(tracer.print()).toBe(
      [
        "turn [server] a=1 b=true",
        "  chat [client]",
        "    * retry attempt=2",
        '  tool [internal] names=["x","y"]',
      ].join("\n"),
    );
    expect(tracer.all().map((span) => span.name)).toEqual(["turn", "chat", "tool"]);
    expect(tracer.only("chat")).toEqual({
      name: "chat",
      kind: "client",
      attributes: {},
      events: [{ name: "retry", attributes: { attempt: 2 } }],
      error: undefined,
      ended: true,
      remoteParent: undefined,
      children: [],
    });
  });

  test("marks a span as failed with the error's name and passes the error on", async () => {
    const tracer = recordingTracer();
    const error = new OverflowError("with content in its message");
    await expect(tracer.span("chat", {}, () => Promise.reject(error))).rejects.toBe(error);
    await tracer.span("tool", {}, async (span) => span.fail("tool_error"));
    expect(tracer.print()).toBe("chat [internal] !OverflowError\ntool [internal] !tool_error");
  });

  test("keeps parallel spans apart and shows what is still open", async () => {
    const tracer = recordingTracer();
    const gate = Promise.withResolvers<void>();
    const tool = (name: string) => tracer.span(name, {}, () => tracer.span(`${name}'s child`, {}, () => gate.promise));
    const turn = tracer.span("turn", { remoteParent: "00-1" }, () => Promise.all([tool("a"), tool("b")]));
    expect(tracer.print()).toBe(
      [
        "turn [internal] (open)",
        "  a [internal] (open)",
        "    a's child [internal] (open)",
        "  b [internal] (open)",
        "    b's child [internal] (open)",
      ].join("\n"),
    );
    gate.resolve();
    await turn;
    expect(tracer.print()).not.toContain("(open)");
    expect(tracer.only("turn").remoteParent).toBe("00-1");
  });

  test("does not answer for a span that is not there, or there twice", async () => {
    const tracer = recordingTracer();
    expect(() => tracer.only("x")).toThrow("no spans are called x");
    await tracer.span("x", {}, async () => undefined);
    await tracer.span("x", {}, async () => undefined);
    expect(() => tracer.only("x")).toThrow("2 spans are called x");
  });

  test("counts its ids, so that a traceparent can be compared", async () => {
    const tracer = recordingTracer();
    const seen = await tracer.span("a", {}, async (a) => [
      a.traceparent(),
      await tracer.span("b", {}, async (b) => b.traceparent()),
    ]);
    expect(seen).toEqual([
      "00-00000000000000000000000000000001-0000000000000001-01",
      "00-00000000000000000000000000000001-0000000000000002-01",
    ]);
  });
});

test("the no-op tracer runs the work and passes its result and its error on", async () => {
  const result = await noopTracer.span("x", {}, async (span) => {
    span.setAttributes({ a: 1 });
    span.addEvent("e");
    span.fail("f");
    return span.traceparent();
  });
  expect(result).toBeUndefined();
  await expect(noopTracer.span("x", {}, () => Promise.reject(new Error("passes")))).rejects.toThrow("passes");
});
