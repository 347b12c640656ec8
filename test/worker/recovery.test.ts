/** The process is killed in the middle of a turn, for real; another one goes on over the same database and bucket. */
import type { ChildProcess } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Simulator, startSimulator } from "../../src/local/simulator/server.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { callerOf, makeTenant, type Tenant } from "../support/platform.ts";
import { kill, type Runners, runners } from "../support/runner-process.ts";

let database: TestDatabase;
let simulator: Simulator;
let tenant: Tenant;
let toolServer: Server;
let toolCalled: PromiseWithResolvers<void>;
let processes: Runners;

/** SIGTERM, as Ctrl-C does it: the runner ends in good order and leaves no process of its group behind. */
const stop = async (child: ChildProcess): Promise<void> => {
  const code = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  expect(await code).toBe(0);
  // The dead are still listed until the system has collected them.
  await vi.waitFor(() => expect(() => process.kill(-(child.pid ?? 0), 0)).toThrow(/ESRCH/), { timeout: 20_000 });
};

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  simulator = await startSimulator();
  tenant = await makeTenant(database);
  processes = runners(
    { databaseUrl: database.connectionString, providerUrl: simulator.url },
    { HANGO_ALLOW_PRIVATE_URLS: "true" },
  );
  toolCalled = Promise.withResolvers<void>();
  // Takes the call and never answers: the run is then between its assistant message and its results.
  toolServer = createServer(() => toolCalled.resolve());
  await new Promise<void>((resolve) => toolServer.listen(0, "127.0.0.1", resolve));
}, 120_000);
afterAll(async () => {
  await processes.close();
  toolServer.closeAllConnections();
  toolServer.close();
  await simulator.close();
  await database.close();
});

it("a process killed between the assistant message and the tool results: the run goes on in another one, which first closes the batch (M7); then the next turn runs", async () => {
  const first = await processes.start();
  const call = callerOf(first.url, tenant);
  const url = `http://127.0.0.1:${(toolServer.address() as AddressInfo).port}/`;
  const tool = { type: "http", name: "charge", description: "Charges a card.", input_schema: { type: "object" }, url };
  const session = (await call("POST", "/v1/sessions", { tools: [tool] })).body.id;
  await call("PUT", `/v1/sessions/${session}/files/kept.md`, "kept over a restart", {
    "Content-Type": "text/markdown",
  });
  simulator.enqueue({
    reply: {
      content: [
        { type: "tool_use", id: "toolu_files", name: "ls", input: { path: "/" } },
        { type: "tool_use", id: "toolu_charge", name: "charge", input: {} },
      ],
    },
  });
  const cut = call("POST", `/v1/sessions/${session}/turns`, { input: "charge it" }).then(
    () => "answered",
    () => "cut",
  );
  await toolCalled.promise;
  await kill(first.child);
  expect(await cut).toBe("cut");
  const log = async () =>
    (
      await database.sql("select seq::int, role, origin from messages where session_id = $1 order by seq", [session])
    ).map((row) => `${row.seq} ${row.origin}`);
  expect(await log()).toEqual(["1 user", "2 assistant"]);

  const second = await processes.start();
  const again = callerOf(second.url, tenant);
  expect((await again("POST", `/v1/sessions/${session}/turns`, { input: "still there?" })).body.error.code).toBe(
    "session_busy",
  );
  await stop(second.child);
  await database.advanceClock(181);
  const third = await processes.start();
  const later = callerOf(third.url, tenant);
  simulator.enqueue({ reply: { content: "Back again." } });
  simulator.enqueue({ reply: { content: "Still here." } });
  const next = await later("POST", `/v1/sessions/${session}/turns`, { input: "still there?", on_busy: "queue" });
  expect(next.body).toMatchObject({ status: "completed", output_text: "Still here." });
  expect(await log()).toEqual(["1 user", "2 assistant", "3 tool", "4 assistant", "5 user", "6 assistant"]);
  const results = (await later("GET", `/v1/sessions/${session}/messages?order=asc`)).body.data[2].content;
  // Listing files bears being done again, charging a card does not.
  expect(results).toEqual([
    { type: "tool_result", tool_use_id: "toolu_files", content: expect.stringContaining("kept.md") },
    {
      type: "tool_result",
      tool_use_id: "toolu_charge",
      content: expect.stringContaining("outcome is unknown"),
      is_error: true,
    },
  ]);
  expect((await later("GET", `/v1/sessions/${session}/files/kept.md`)).body).toBe("kept over a restart");
  const runs = (await later("GET", `/v1/sessions/${session}/runs?order=asc`)).body.data;
  expect(runs.map((run: { status: string; attempts: number }) => [run.status, run.attempts])).toEqual([
    ["completed", 2],
    ["completed", 1],
  ]);
}, 120_000);
