import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startToolServer, type ToolServer } from "../../../../src/local/demo/tool-server.ts";

const RAW = '{"10": 1.0}';
let nowMs = 0;
let server: ToolServer;

beforeEach(async () => {
  nowMs = 0;
  server = await startToolServer({
    calls: [
      { toolUseId: "t1", name: "search", inputText: RAW, content: "found", isError: false },
      { toolUseId: "t2", name: "search", inputText: RAW, content: [{ type: "text", text: "broken" }], isError: true },
    ],
    // Every look at the clock takes it 5 ms further.
    now: () => {
      nowMs += 5;
      return nowMs;
    },
  });
});
afterEach(() => server.close());

const call = async (body: string) => {
  const response = await fetch(`${server.url}/search`, { method: "POST", body });
  return { status: response.status, body: await response.json() };
};
const body = (id: string, name = "search", input = RAW): string =>
  `{"tool_use_id":"${id}","name":"${name}","session_id":"s","run_id":"r","input":${input}}`;

describe("the demo's tool server", () => {
  it("answers each call with what was recorded for it", async () => {
    expect(await call(body("t2"))).toEqual({
      status: 200,
      body: { content: [{ type: "text", text: "broken" }], is_error: true },
    });
    expect(await call(body("t1"))).toEqual({ status: 200, body: { content: "found" } });
    expect(server.answered()).toBe(2);
    expect(server.problems).toEqual([]);
  });

  it("tells how long calls were there, once", async () => {
    await call(body("t1"));
    await expect.poll(() => server.takeBusyMs()).toBe(5);
    expect(server.takeBusyMs()).toBe(0);
  });

  it("does not answer a call twice, nor one that nobody recorded", async () => {
    await call(body("t1"));
    const again = await call(body("t1"));
    expect(again).toEqual({ status: 404, body: { content: "No such call was recorded.", is_error: true } });
    expect(server.problems).toEqual([
      "the tool search was called as t1, which nobody recorded or which was answered already",
    ]);
  });

  it("notices an input in other bytes (V9), and a call to another tool", async () => {
    await call(body("t1", "open", '{"10":1}'));
    expect(server.problems).toEqual([
      "call t1 went to open instead of search",
      "the input of call t1 (search) came in other bytes",
    ]);
  });

  it("survives what is no call", async () => {
    expect((await call("what?")).status).toBe(400);
    expect(server.problems).toHaveLength(1);
  });
});
