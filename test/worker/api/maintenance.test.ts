/** The cron door: its tasks keep each other from nothing, and none runs more often than it says. */
import { beforeAll, beforeEach, expect, it } from "vitest";
import { type MaintenanceTask, maintain, type TaskEnd } from "../../../src/turns/maintenance.ts";
import { turnTasks } from "../../../src/turns/tasks.ts";
import { type Harness, harness } from "./harness.ts";

let api: Harness;
let ran: string[];

beforeAll(async () => {
  api = await harness({ kind: "postgres" });
});
beforeEach(async () => {
  ran = [];
  await api.db.sql("delete from maintenance_tasks");
});

const task = (name: string, everySeconds: number, end: () => TaskEnd = () => "done"): MaintenanceTask => ({
  name,
  everySeconds,
  run: async () => {
    ran.push(name);
    return end();
  },
});
const fails = (): never => {
  throw new TypeError("secret");
};
/** The tasks that a tick does. */
const tick = async (tasks: readonly MaintenanceTask[]): Promise<readonly string[]> => {
  ran = [];
  await maintain(api.deps, tasks);
  return ran;
};

it("does every task although one before it fails, says which, and shows the tick as failed", async () => {
  const tasks = [task("a", 0, fails), task("b", 0), task("c", 60, fails), task("d", 60)];
  await expect(maintain(api.deps, tasks)).rejects.toThrow("maintenance failed: a, c");
  expect(ran).toEqual(["a", "b", "c", "d"]);
  const lines = api.logged.filter((line) => line.includes("a maintenance task failed"));
  expect(lines).toHaveLength(2);
  expect(lines.join()).toContain("TypeError");
  expect(lines.join()).not.toContain("secret");
});

it("does a task when its time is over, by the database's clock; one of 0 seconds always", async () => {
  const tasks = [task("hourly", 3_600), task("always", 0), task("minutely", 60)];
  expect(await tick(tasks)).toEqual(["always", "hourly", "minutely"]);
  expect(await tick(tasks)).toEqual(["always"]);
  await api.db.advanceClock(60);
  expect(await tick(tasks)).toEqual(["always", "minutely"]);
  await api.db.advanceClock(3_540);
  expect(await tick(tasks)).toEqual(["always", "hourly", "minutely"]);
});

it("does a task again at the next tick that failed or has more to do", async () => {
  const ends: (() => TaskEnd)[] = [fails, () => "more", () => "done"];
  const tasks = [task("hourly", 3_600, () => (ends.shift() ?? fails)())];
  await expect(maintain(api.deps, tasks)).rejects.toThrow("hourly");
  expect([await tick(tasks), await tick(tasks), await tick(tasks)]).toEqual([["hourly"], ["hourly"], []]);
});

it("does a task once although 10 ticks come at once", async () => {
  await Promise.all(Array.from({ length: 10 }, () => maintain(api.deps, [task("hourly", 3_600)])));
  expect(ran).toEqual(["hourly"]);
});

it("does what needs no clock although the database does not say what is due", async () => {
  const db = { ...api.deps.db, batch: () => Promise.reject(new Error("down")) };
  await expect(maintain({ ...api.deps, db }, [task("hourly", 3_600), task("always", 0)])).rejects.toThrow("due tasks");
  expect(ran).toEqual(["always"]);
});

it("takes four round trips where nothing is due, and names each task once", async () => {
  await maintain(api.deps, turnTasks);
  const before = api.db.requests();
  await maintain(api.deps, turnTasks);
  expect(api.db.requests() - before).toBe(4);
  expect(new Set(turnTasks.map(({ name }) => name)).size).toBe(turnTasks.length);
});
