/** Turns that everything goes wrong in: sessions with a script of what the provider answers, whatever is repeated. */
import { expect, vi } from "vitest";
import type { ScriptBlock } from "../../src/local/simulator/script.ts";
import { MODEL, prose, talk } from "../support/compaction.ts";
import { type Answer, callerOf, makeTenant, type Tenant } from "../support/platform.ts";
import type { Lane, WorkerName } from "./lane.ts";

const WINDOW_TOKENS = 20_000;

/** Messages before the turn: a little below the trigger, which the results of its first batch exceed. */
export const BEFORE = talk(20, 235);

/** What the tools answer: `charge` so much that it is offloaded. */
export const TOOL_ANSWERS = {
  "/note": prose(1_400, 6),
  "/charge": prose(2_500, 5),
  "/look": "Nothing there.",
};

export interface Scenario {
  readonly id: string;
  readonly tenant: Tenant;
  /** Ids of calls that may be repeated, and that may not. */
  readonly repeatable: readonly string[];
  readonly once: readonly string[];
  /** What the turn adds to the log when nothing goes wrong, as `markOf` writes it. */
  readonly turnRows: readonly string[];
  /** What the turn after it adds. */
  readonly afterRows: readonly string[];
  /** All that a caller does for the turn. */
  turn(worker: WorkerName, more?: object): Promise<Answer>;
  /** What a caller does about a turn that broke off, besides the next turn. */
  goOn(worker: WorkerName): Promise<void>;
  /** Any other turn. */
  post(worker: WorkerName, body: object): Promise<Answer>;
  after(worker: WorkerName): Promise<Answer>;
  get(worker: WorkerName, path: string): Promise<Answer>;
  cancel(worker: WorkerName, runId: string): Promise<Answer>;
}

export type OpenScenario = (lane: Lane) => Promise<Scenario>;

let sessions = 0;

/** A word that is in no other session, and ids of calls made with it. */
const nextTag = () => {
  sessions++;
  const tag = `p${String(sessions).padStart(4, "0")}`;
  return { tag, callId: (name: string) => `toolu_${tag}_${name}` };
};

const use = (name: string, id: string, input = {}): ScriptBlock => ({ type: "tool_use", id, name, input });

const tool = (lane: Lane, name: string, idempotent: boolean) => ({
  type: "http",
  name,
  description: `Does ${name}.`,
  input_schema: { type: "object" },
  url: lane.toolsUrl + name,
  idempotent,
});

interface Reply {
  /** What a request holds that is answered so. */
  readonly to: string;
  readonly content: string | ScriptBlock[];
  /** A gate of the simulator that the answer waits at. */
  readonly gate?: string | undefined;
}

interface Plan extends Pick<Scenario, "repeatable" | "once" | "turnRows"> {
  readonly tag: string;
  readonly start: string;
  readonly tools: readonly object[];
  /** Those to later requests first: the newest that a request holds decides. */
  readonly replies: readonly Reply[];
}

type Opened = Scenario & { readonly call: (worker: WorkerName) => Promise<ReturnType<typeof callerOf>> };

const open = async (lane: Lane, plan: Plan): Promise<Opened> => {
  const { tag, start, tools, replies, repeatable, once, turnRows } = plan;
  const again = `Are you still there, ${tag}?`;
  const here = `Here I am, ${tag}.`;
  lane.simulator.reset();
  lane.simulator.setModels({ [MODEL]: { maxInputTokens: WINDOW_TOKENS } });
  for (const { to, content, gate } of [{ to: again, content: here, gate: undefined }, ...replies]) {
    lane.simulator.enqueue({
      match: { purpose: "turn", contains: to },
      times: "always",
      reply: { content },
      ...(gate === undefined ? {} : { hold: { name: gate, at: "start" } }),
    });
  }
  const tenant = await makeTenant(lane.database);
  const at = async (name: WorkerName) => callerOf((await lane.worker(name)).url, tenant);
  const call = await at("b");
  const made = await call("POST", "/v1/sessions", {
    model: MODEL,
    max_tokens: 1_000,
    context: { max_input_tokens: WINDOW_TOKENS },
    tools,
  });
  expect([made.status, made.body.error]).toEqual([201, undefined]);
  const id: string = made.body.id;
  expect((await call("POST", `/v1/sessions/${id}/import`, { messages: BEFORE })).status).toBe(200);
  const post = async (name: WorkerName, body: object) => (await at(name))("POST", `/v1/sessions/${id}/turns`, body);
  return {
    id,
    tenant,
    repeatable,
    once,
    turnRows,
    afterRows: [`user ${again}`, `assistant ${here}`],
    turn: (name, more = {}) => post(name, { input: start, ...more }),
    goOn: async () => undefined,
    post,
    after: (name) => post(name, { input: again }),
    cancel: async (name, runId) => (await at(name))("POST", `/v1/runs/${runId}/cancel`),
    get: async (name, path) => (await at(name))("GET", `/v1/sessions/${id}${path}`),
    call: at,
  };
};

/**
 * The turn calls three tools at once (one may be repeated, one may not, one is hango's own), has a result offloaded, is compacted with its history
 * written, calls another tool, and ends.
 * @param holdAfterBatch a gate of the simulator that the call after the first batch waits at
 */
export const openScenario = (lane: Lane, holdAfterBatch?: string): Promise<Scenario> => {
  const { tag, callId } = nextTag();
  const [note, charge, write, look] = [callId("note"), callId("charge"), callId("write"), callId("look")];
  const start = `Start ${tag}: note it, charge it, write it down.`;
  const done = `All done, ${tag}.`;
  return open(lane, {
    tag,
    start,
    tools: [tool(lane, "note", true), tool(lane, "charge", false), tool(lane, "look", true)],
    replies: [
      { to: look, content: done },
      { to: charge, content: [use("look", look)], gate: holdAfterBatch },
      {
        to: start,
        content: [
          use("note", note),
          use("charge", charge),
          use("write_file", write, { file_path: "/done.md", content: tag }),
        ],
      },
    ],
    repeatable: [note, look],
    once: [charge],
    turnRows: [
      `user ${start}`,
      `assistant ${note} ${charge} ${write}`,
      `tool ${note} ${charge} ${write}`,
      `assistant ${look}`,
      `tool ${look}`,
      `assistant ${done}`,
    ],
  });
};

/** The turn calls a tool of ours and one that its caller runs, waits for the caller, is compacted, and ends. */
export const openCallerScenario: OpenScenario = async (lane) => {
  const { tag, callId } = nextTag();
  const [note, ask] = [callId("note"), callId("ask")];
  const start = `Start ${tag}: note it, then ask.`;
  const done = `All done, ${tag}.`;
  const session = await open(lane, {
    tag,
    start,
    tools: [
      tool(lane, "note", true),
      { type: "custom", name: "ask", description: "Asks.", input_schema: { type: "object" } },
    ],
    replies: [
      { to: note, content: done },
      { to: start, content: [use("note", note), use("ask", ask)] },
    ],
    repeatable: [note],
    once: [],
    turnRows: [`user ${start}`, `assistant ${note} ${ask}`, `tool ${note} ${ask}`, `assistant ${done}`],
  });
  const answer = async (name: WorkerName, runId: string): Promise<Answer> =>
    (await session.call(name))("POST", `/v1/runs/${runId}/tool_results`, {
      tool_results: [{ tool_use_id: ask, content: `Yes, ${tag}.` }],
    });
  return {
    ...session,
    turn: async (name) => {
      const asked = await session.turn(name);
      return asked.body.status === "requires_action" ? answer(name, asked.body.id) : asked;
    },
    goOn: async (name) => {
      const runs = await vi.waitFor(
        async () => {
          const { body } = await session.get(name, "/runs");
          expect(body.data.map(({ status }: { status: string }) => status)).not.toContain("running");
          return body.data;
        },
        { timeout: 10_000, interval: 50 },
      );
      if (runs[0]?.status === "requires_action") expect((await answer(name, runs[0].id)).status).toBe(200);
    },
  };
};

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly tool_use_id?: string;
  readonly text?: string;
}

/** A row of the log in a few words: its origin, and the ids of its calls or results, or its text. */
export const markOf = (origin: string, content: string): string => {
  const blocks: string | readonly Block[] = JSON.parse(content);
  if (typeof blocks === "string") return `${origin} ${blocks}`;
  const ids = blocks.flatMap((block) => block.id ?? block.tool_use_id ?? []);
  return `${origin} ${ids.length > 0 ? ids.join(" ") : blocks.map(({ text }) => text ?? "").join("")}`;
};
