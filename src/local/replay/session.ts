/** The replay of one recording: its plan, its window, its tools, its client. */
import { planReplay } from "../demo/plan.ts";
import { startToolServer } from "../demo/tool-server.ts";
import type { Source } from "./collect.ts";
import { type Driven, drive, type TurnSeen } from "./drive.ts";
import type { ReplayPlatform } from "./platform.ts";
import { chooseWindow, sizeOf } from "./window.ts";

export interface ReplayedSession {
  readonly name: string;
  readonly windowTokens: number;
  readonly fills: number;
  readonly driven: Driven;
}

export interface SessionOptions {
  readonly source: Source;
  readonly platform: ReplayPlatform;
  /** Of the sessions of this platform: gives the session a model of its own. */
  readonly number: number;
  /** Model family: with a date behind it, it is a model of its own. */
  readonly family: string;
  /** The window in tokens, where it is not to be chosen by the recording's size. */
  readonly windowTokens?: number | undefined;
  readonly now: () => number;
  readonly onTurn?: ((turn: TurnSeen) => void) | undefined;
}

/** Eight digits are a date to hango and to the simulator: the model's profile stays that of its family. */
const FIRST_DATE = 20_260_000;

/**
 * Replays one recording in a small window.
 * @throws RecordingError for what cannot be planned, DemoApiError when the API cannot be used
 */
export const replaySession = async (options: SessionOptions): Promise<ReplayedSession> => {
  const { source, platform, now } = options;
  const plan = planReplay(source.recording);
  const chosen = chooseWindow(sizeOf(source.recording));
  const windowTokens = options.windowTokens ?? chosen.windowTokens;
  const tools = await startToolServer({
    calls: plan.turns.flatMap(({ results }) => results.map((one) => ({ ...one, name: plan.nameOf(one.name) }))),
    now,
  });
  try {
    const driven = await drive({
      plan,
      model: `${options.family}-${FIRST_DATE + options.number}`,
      windowTokens,
      client: await platform.newClient(source.name),
      simulator: platform.simulator,
      tools,
      ...(options.onTurn === undefined ? {} : { onTurn: options.onTurn }),
    });
    return { name: source.name, windowTokens, fills: chosen.fills, driven };
  } finally {
    await tools.close();
  }
};
