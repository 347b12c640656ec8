/** Many requests at once, over two Workers. */
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { type Answer, type Call, callerOf, makeTenant } from "../support/platform.ts";
import { type Lane, startLane } from "./lane.ts";
import { markOf } from "./scenario.ts";

let lane: Lane;
let workers: readonly [Call, Call];
let session: string;

beforeAll(async () => {
  lane = await startLane();
});
afterAll(() => lane.close());
beforeEach(async () => {
  lane.simulator.reset();
  lane.faults.arm("", null);
  const tenant = await makeTenant(lane.database);
  workers = [callerOf((await lane.worker("a")).url, tenant), callerOf((await lane.worker("b")).url, tenant)];
  session = (await workers[0]("POST", "/v1/sessions", {})).body.id;
});

/** Posts by turns to the one and the other. */
const post = (at: number, body: object, headers = {}): Promise<Answer> =>
  (at % 2 === 0 ? workers[0] : workers[1])("POST", `/v1/sessions/${session}/turns`, body, headers);

const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));

const logOf = async (): Promise<readonly string[]> =>
  (
    await lane.database.sql("select origin, content::text from messages where session_id = $1 order by seq", [session])
  ).map(({ origin, content }) => markOf(String(origin), String(content)));

const runsOf = () =>
  lane.database.sql(
    `select status, attempts, started_at >= coalesce(lag(finished_at) over (order by position), started_at) as after_the_one_before,
       (select m.content::text from messages m where m.session_id = r.session_id and m.seq = r.input_seq) as input
     from runs r where session_id = $1 order by position`,
    [session],
  );

/** Every turn ran once and alone, in the order in which they were stored; each message is there once, with its answer after it. */
const expectInOrder = async (inputs: readonly string[]): Promise<readonly string[]> => {
  const runs = await runsOf();
  expect(runs.map(({ status, attempts, after_the_one_before: after }) => `${status} ${attempts} ${after}`)).toEqual(
    inputs.map(() => "completed 1 true"),
  );
  const order = runs.map(({ input }) => markOf("user", String(input)));
  const log = await logOf();
  expect(log.filter((_, at) => at % 2 === 0)).toEqual(order);
  expect(log.filter((_, at) => at % 2 === 1).every((mark) => mark.startsWith("assistant "))).toBe(true);
  expect([...order].sort()).toEqual(inputs.map((input) => `user ${input}`).sort());
  const [head] = await lane.database.sql("select lease_holder from session_heads where session_id = $1", [session]);
  expect(head?.lease_holder).toBe(null);
  return order;
};

it("50 turns at once with `queue` over two Workers: one at a time, none lost, in the order in which they came", async () => {
  const inputs = times(50, (at) => `Turn ${at}.`);
  const answers = await Promise.all(inputs.map((input, at) => post(at, { input, on_busy: "queue" })));
  expect(answers.map(({ status, body }) => `${status} ${body.status}`)).toEqual(times(50, () => "200 completed"));
  for (const [at, { body }] of answers.entries()) expect(body.output_text).toContain(`"Turn ${at}."`);
  await expectInOrder(inputs);
});

it("turns that are queued one after the other run in that order, whichever Worker took them", async () => {
  const inputs = times(20, (at) => `Turn ${at}.`);
  for (const [at, input] of inputs.entries()) {
    const { status } = await post(at, { input, on_busy: "queue", background: true });
    expect(status).toBe(202);
  }
  await vi.waitFor(async () => expect((await runsOf()).every(({ status }) => status === "completed")).toBe(true), {
    timeout: 30_000,
    interval: 100,
  });
  expect(await expectInOrder(inputs)).toEqual(inputs.map((input) => `user ${input}`));
});

it("50 equal requests with one key over two Workers make one run, and all get its result", async () => {
  const key = { "Idempotency-Key": "the-same" };
  const answers = await Promise.all(times(50, (at) => post(at, { input: "Once." }, key)));
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id} ${body.output_text}`)).size).toBe(1);
  expect(answers[0]).toMatchObject({ status: 200, body: { status: "completed" } });
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true")).toHaveLength(49);
  await expectInOrder(["Once."]);
});

it("50 equal requests with one key and `queue` for a busy session make one run", async () => {
  lane.simulator.enqueue({ hold: "busy", reply: { content: "Busy." } });
  const busy = post(0, { input: "First." });
  await lane.simulator.reached("busy");
  const key = { "Idempotency-Key": "queued" };
  const equal = times(50, (at) => post(at, { input: "Once.", on_busy: "queue" }, key));
  await vi.waitFor(async () => expect(await runsOf()).toHaveLength(2), { timeout: 10_000, interval: 20 });
  lane.simulator.release("busy");
  const answers = await Promise.all(equal);
  expect((await busy).body.status).toBe("completed");
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id} ${body.output_text}`)).size).toBe(1);
  await expectInOrder(["First.", "Once."]);
});

it("20 racers for a session over two Workers: one wins, 19 are told by whom it is held", async () => {
  lane.simulator.enqueue({ hold: "race", reply: { content: "Mine." } });
  let refused = 0;
  const answers = await Promise.all(
    times(20, async (at) => {
      const answer = await post(at, { input: `Racer ${at}.` });
      if (answer.status === 409 && ++refused === 19) lane.simulator.release("race");
      return answer;
    }),
  );
  const winner = answers.find(({ status }) => status === 200);
  expect(winner?.body.output_text).toBe("Mine.");
  const busy = answers.filter(({ status }) => status === 409);
  expect(busy.map(({ body }) => [body.error.code, body.error.run_id])).toEqual(
    times(19, () => ["session_busy", winner?.body.id]),
  );
  expect(await logOf()).toHaveLength(2);
});
