/** The replay of one recording: its plan, its window, its tools, its client. */
import { type Plan, planReplay } from "../demo/plan.ts";
import { RecordingError } from "../demo/recording.ts";
import { startToolServer } from "../demo/tool-server.ts";
import { createCatalogue } from "../simulator/catalogue.ts";
import { chain } from "./chain.ts";
import type { Source } from "./collect.ts";
import { type Driven, drive, type TurnSeen } from "./drive.ts";
import type { ReplayPlatform } from "./platform.ts";
import { chooseWindow, LEAST_FILLS, sizeOf } from "./window.ts";

export interface PlannedSession {
  readonly name: string;
  readonly plan: Plan;
  readonly windowTokens: number;
  /** Model family: with a date behind it, it is a model of its own. */
  readonly family: string;
  /** How often the recording is replayed in a row: more than once where it is too small to outgrow a window several times. */
  readonly times: number;
}

/** Most times that a small recording is replayed in a row. */
const MOST_TIMES = 8;

/** The model that is replayed with unless another is asked for. */
export const DEFAULT_FAMILY = "claude-sonnet-5-5";

/**
 * Plans the replay of a recording, in a window that it outgrows.
 * @param family the model; the simulator has to know it
 * @param windowTokens the window, where it is not to be chosen by the recording's size; the recording is replayed once then
 * @throws RecordingError for what cannot be planned
 */
export const planSession = ({ name, recording }: Source, family: string, windowTokens?: number): PlannedSession => {
  try {
    if (windowTokens !== undefined) return { name, family, plan: planReplay(recording), windowTokens, times: 1 };
    const { tokenFactor } = createCatalogue().find(family);
    const once = chooseWindow(sizeOf(recording, tokenFactor));
    const times = Math.min(MOST_TIMES, Math.max(1, Math.ceil(LEAST_FILLS / once.fills)));
    if (times === 1) return { name, family, plan: planReplay(recording), windowTokens: once.windowTokens, times };
    const repeated = chain(
      name,
      Array.from({ length: times }, () => recording),
    );
    return { name, family, plan: planReplay(repeated), windowTokens: once.windowTokens, times };
  } catch (error) {
    if (error instanceof RecordingError) throw new RecordingError(`${name}: ${error.message}`);
    throw error;
  }
};

export interface ReplayedSession extends PlannedSession {
  readonly driven: Driven;
}

export interface SessionOptions {
  readonly planned: PlannedSession;
  readonly platform: ReplayPlatform;
  /** Of the sessions of this platform: gives the session a model of its own. */
  readonly number: number;
  readonly now: () => number;
  readonly onTurn?: ((turn: TurnSeen) => void) | undefined;
}

/** Longest name of a tenant and of a key. */
const MAX_NAME = 200;
/** Eight digits are a date to hango and to the simulator: the model's profile stays that of its family. */
const FIRST_DATE = 20_260_000;

/**
 * Replays one recording in its window.
 * @throws DemoApiError when the API cannot be used
 */
export const replaySession = async (options: SessionOptions): Promise<ReplayedSession> => {
  const { planned, platform, now } = options;
  const { plan, windowTokens, name } = planned;
  const tools = await startToolServer({
    calls: plan.turns.flatMap(({ results }) => results.map((one) => ({ ...one, name: plan.nameOf(one.name) }))),
    now,
  });
  try {
    const driven = await drive({
      plan,
      model: `${planned.family}-${FIRST_DATE + options.number}`,
      windowTokens,
      client: await platform.newClient(name.slice(0, MAX_NAME)),
      simulator: platform.simulator,
      tools,
      ...(options.onTurn === undefined ? {} : { onTurn: options.onTurn }),
    });
    return { ...planned, driven };
  } finally {
    await tools.close();
  }
};
