/** Messages that arrive while a run is on, through another Worker and in real time (M5). */
import { afterAll, beforeAll, expect, it } from "vitest";
import { occurrences, textOf } from "../support/compaction.ts";
import type { Point } from "./faults.ts";
import { type Lane, startLane } from "./lane.ts";
import { markOf, openScenario, type Scenario, TOOL_ANSWERS } from "./scenario.ts";

let lane: Lane;

beforeAll(async () => {
  lane = await startLane({ answers: TOOL_ANSWERS });
});
afterAll(() => lane.close());

const JOINING = "Also use tabs, please.";

/** A turn that is stopped at a point, a message that joins it there, and its end. */
const joinedAt = async (point: Point): Promise<Scenario> => {
  const scenario = await openScenario(lane);
  lane.faults.arm("a", { point, mode: "late", kill: () => Promise.resolve() });
  const turn = scenario.turn("a");
  await lane.faults.happened();
  const refused = await scenario.post("b", { input: "No." });
  expect([refused.status, refused.body.error.code]).toEqual([409, "session_busy"]);
  const joined = await scenario.post("b", { input: JOINING, on_busy: "join", wait: 0 });
  expect(joined).toMatchObject({ status: 202, body: { id: refused.body.error.run_id, status: "running" } });
  lane.faults.release();
  expect((await turn).body).toMatchObject({ status: "completed" });
  return scenario;
};

const logOf = async ({ id, turnRows }: Scenario): Promise<readonly string[]> => {
  const rows = await lane.database.sql(
    "select origin, content::text from messages where session_id = $1 order by seq",
    [id],
  );
  const marks = rows.map(({ origin, content }) => markOf(String(origin), String(content)));
  return marks.slice(marks.indexOf(turnRows[0] ?? ""));
};

// biome-ignore lint/suspicious/noExplicitAny: requests of every shape
const requests = (): readonly any[] =>
  lane.simulator.requests
    .filter(({ path, purpose }) => path === "/v1/messages" && purpose === "turn")
    .map(({ body }) => body);

it("a message posted during a tool batch is in the log after that batch, and in the next request once, in its tail (M5)", async () => {
  const scenario = await joinedAt({ kind: "tool", label: "charge", occurrence: 1 });
  const [start, calls, results, ...rest] = scenario.turnRows;
  expect(await logOf(scenario)).toEqual([start, calls, results, `user ${JOINING}`, ...rest]);
  for (const { messages } of requests().slice(1)) expect(occurrences(textOf(messages), JOINING)).toBe(1);
  expect(textOf(requests()[1].messages.slice(-1))).toContain(JOINING);
});

it("a message posted during a summary is in the log after the batch that follows, and in the tail of the next view once (M5)", async () => {
  const scenario = await joinedAt({ kind: "provider", label: "summary", occurrence: 1 });
  const [start, calls, results, look, found, ...rest] = scenario.turnRows;
  expect(await logOf(scenario)).toEqual([start, calls, results, look, found, `user ${JOINING}`, ...rest]);
  const [, compacted, next] = requests();
  expect(textOf(compacted.messages[0])).toContain("[Handoff from earlier turns]");
  expect(occurrences(textOf(compacted.messages), JOINING)).toBe(0);
  expect(occurrences(textOf(next.messages), JOINING)).toBe(1);
  expect(textOf(next.messages.slice(-1))).toContain(JOINING);
});

it("a message posted while the last answer is written is answered by the same run (M5)", async () => {
  const scenario = await joinedAt({ kind: "provider", label: "turn", occurrence: 3 });
  const log = await logOf(scenario);
  expect(log.slice(0, -1)).toEqual([...scenario.turnRows, `user ${JOINING}`]);
  expect(log.at(-1)).toMatch(/^assistant /);
  expect(occurrences(textOf(requests().at(-1).messages), JOINING)).toBe(1);
});
