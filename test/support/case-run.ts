/** Runs a case of `test/fixtures/cases` through the built Worker: its log into a session, its compactions and turns done. */
import { expect } from "vitest";
import type { ScriptEntry } from "../../src/local/simulator/script.ts";
import { type CaseStep, type CaseText, caseText, messageOf, stepsOf } from "./case-log.ts";
import { type CaseSession, caseSession, isNext } from "./case-session.ts";
import { type CompactingSession, compactingSession, textOf } from "./compaction.ts";
import type { Answer, TestPlatform } from "./platform.ts";
import { type SlowTool, startSlowTool } from "./slow-tool.ts";

export interface Case {
  readonly id: string;
  readonly rules: readonly string[];
  readonly about: string;
  readonly log: readonly CaseStep[];
  readonly expect: Readonly<Record<string, unknown>>;
  readonly window: number;
  readonly compact?: "force" | "manual";
  readonly system?: CaseText;
  readonly tools?: number;
  readonly summarizer?: readonly string[];
  readonly summarizer_window?: number;
}

export const CASE_KEYS: readonly string[] = [
  "id",
  "rules",
  "about",
  "log",
  "expect",
  "window",
  "compact",
  "system",
  "tools",
  "summarizer",
  "summarizer_window",
] satisfies (keyof Case)[];

/** The model of summaries, with a window that takes all but one of the cases in one call. */
export const SUMMARIZER = "claude-haiku-5-5";
export const SUMMARIZER_WINDOW = 100_000;

/** The cases count their window for the conversation alone; the instructions and tools that stand around it here have about this size. */
const AROUND_TOKENS = 2_400;

/** A summary as long as its input is refused whatever it says (S5): an echo repeats the beginning, where the earlier summary stands. */
const ECHO_CHARS = 1_500;

export interface CaseRun {
  readonly session: CompactingSession;
  /** Requests of turns before the case's own compaction, and rows of answers. */
  readonly turnsBefore: number;
  readonly assistantRowsBefore: number;
  /** Waits that the failures of the summariser left behind, in seconds. */
  readonly cooldowns: readonly number[];
  /** The last turn. */
  readonly answer: Answer | undefined;
}

const clientTools = (count: number, url: string) =>
  Array.from({ length: count }, (_, at) => ({
    type: "http",
    name: `tool_${at}`,
    description: caseText({ chars: 900, of: "prose" }),
    input_schema: { type: "object", properties: { value: { type: "string" } } },
    url,
  }));

const makeSession = async (platform: TestPlatform, given: Case, url: string): Promise<CompactingSession> => {
  const slow = { type: "http", name: "slow_tool", description: "Slow.", input_schema: { type: "object" }, url };
  const tools = [...clientTools(given.tools ?? 0, url), ...(isLive(given) ? [slow] : [])];
  const session = await compactingSession(platform, {
    windowTokens: given.window + AROUND_TOKENS,
    fields: { ...(given.system === undefined ? {} : { system: caseText(given.system) }), tools },
    context: { summarizer_model: SUMMARIZER },
  });
  expect(given.summarizer_window ?? SUMMARIZER_WINDOW).toBe(SUMMARIZER_WINDOW);
  platform.simulator.setModels({ [SUMMARIZER]: { maxInputTokens: SUMMARIZER_WINDOW } });
  return session;
};

/** What the summariser does at its next call. */
const behaviourOf = (behaviour: string): Omit<ScriptEntry, "match"> | undefined => {
  switch (behaviour) {
    case "ok":
      return undefined;
    case "blank":
      return { reply: { content: " \n\t " } };
    case "max_tokens":
      return { fault: { kind: "truncate", tokens: 20 } };
    case "529":
    case "401":
      return { fault: { kind: "status", status: Number(behaviour) } };
    default:
      throw new Error(`a summariser that is ${behaviour}`);
  }
};

/** Compacts with a summariser that behaves so, after the wait of the failure before. */
const compactAs = async (platform: TestPlatform, session: CaseSession, behaviour: string): Promise<void> => {
  const { simulator, database } = platform;
  const next = (entry: Omit<ScriptEntry, "match"> | undefined): void => {
    if (entry !== undefined) simulator.enqueue({ match: { purpose: "summarize" }, ...entry });
  };
  await database.advanceClock(session.cooldowns.at(-1) ?? 0);
  if (behaviour === "echo") {
    // What it will be asked is known from a first call that fails.
    next(behaviourOf("529"));
    await session.compact();
    const asked = simulator.requests.findLast(({ purpose }) => purpose === "summarize");
    next({ reply: { content: textOf(JSON.parse(asked?.bodyText ?? "{}").messages).slice(0, ECHO_CHARS) } });
  } else next(behaviourOf(behaviour));
  await session.compact();
  expect([behaviour, simulator.pending()]).toEqual([behaviour, 0]);
};

/** Input arrives only while a run is on, so that such a log is one turn that really runs. */
const isLive = ({ log }: Case): boolean => log.some((step) => "arrives" in step);

const runLive = async (
  platform: TestPlatform,
  session: CompactingSession,
  log: CaseSession,
  steps: readonly CaseStep[],
  tool: SlowTool,
): Promise<Answer> => {
  let answer: Promise<Answer> | undefined;
  let input = "";
  for (const step of steps) {
    if ("user" in step) input = caseText(step.user);
    else if ("calls" in step) {
      const content = step.calls.map(({ id, name, input: given }) => ({
        type: "tool_use" as const,
        id,
        name,
        input: given,
      }));
      platform.simulator.enqueue({ match: { purpose: "turn" }, reply: { content } });
      answer = session.turn(input);
      await tool.called;
    } else if ("arrives" in step) await log.arrive(step.arrives);
    else if ("results" in step) tool.answer(caseText(step.results[0]?.text ?? ""));
    else throw new Error(`not in a turn: ${Object.keys(step)}`);
  }
  if (answer === undefined) throw new Error("nothing was asked");
  return answer;
};

/** Does the steps of the log. @returns the answer of its last turn, where that is the last step */
const runSteps = async (
  platform: TestPlatform,
  log: CaseSession,
  steps: readonly CaseStep[],
  behaviours: string[],
): Promise<Answer | undefined> => {
  let answer: Answer | undefined;
  for (const step of steps) {
    const message = messageOf(step);
    answer = undefined;
    if (message !== undefined) log.add(message);
    else if ("turn" in step) answer = await log.turn(step.turn);
    else if ("rewind_turns" in step) await log.rewind({ turns: step.rewind_turns });
    else if ("rewind_to_seq" in step) await log.rewind({ to_seq: step.rewind_to_seq });
    else if ("compact" in step && step.during === undefined) await compactAs(platform, log, behaviours.shift() ?? "ok");
    else if ("compact" in step) {
      await log.flush();
      platform.simulator.enqueue({ match: { purpose: "summarize" }, hold: { name: "during", at: "start" } });
      const done = log.compact();
      await platform.simulator.reached("during");
      for (const { user } of step.during ?? []) await log.arrive(caseText(user));
      platform.simulator.release("during");
      await done;
    } else throw new Error(`unknown step: ${Object.keys(step)}`);
  }
  return answer;
};

/** Runs the case. Every existing row is checked to be unchanged by each of its steps (M6). */
export const runCase = async (platform: TestPlatform, given: Case): Promise<CaseRun> => {
  const tool = await startSlowTool();
  try {
    const session = await makeSession(platform, given, tool.url);
    const log = caseSession(platform, session);
    const steps = stepsOf(given.log);
    const behaviours = [...(given.summarizer ?? [])];
    if (isLive(given)) {
      const answer = await runLive(platform, session, log, steps, tool);
      return { session, turnsBefore: 0, assistantRowsBefore: 0, cooldowns: [], answer };
    }
    let answer = await runSteps(platform, log, steps, behaviours);
    const asked = given.compact === undefined ? log.takeRequest() : undefined;
    await log.flush();
    const turnsBefore = session.sent().length;
    const assistantRowsBefore = (await session.log()).filter(({ role }) => role === "assistant").length;
    for (const behaviour of behaviours) await compactAs(platform, log, behaviour);
    if (given.compact !== undefined) await log.compact();
    for (const message of stepsOf((given.expect.then ?? []) as readonly CaseStep[]).map(messageOf)) {
      if (message === undefined) throw new Error("what comes then is a message");
      if (await isNext(platform, session.id, message.results)) log.add(message);
    }
    const isOver = answer !== undefined || given.expect.provider_calls_after !== undefined;
    if (!isOver) answer = await log.turn(asked === undefined ? "Go on." : textOf(JSON.parse(asked.content)));
    return { session, turnsBefore, assistantRowsBefore, cooldowns: log.cooldowns, answer };
  } finally {
    tool.close();
  }
};
