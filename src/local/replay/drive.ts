/** Replays a planned session turn by turn against a running platform, and watches what becomes of its context. */
import { z } from "zod";
import { type Client, DemoApiError } from "../demo/client.ts";
import type { Plan, PlannedTurn } from "../demo/plan.ts";
import type { ToolServer } from "../demo/tool-server.ts";
import { verifyLog } from "../demo/verify.ts";
import type { ScriptEntry } from "../simulator/script.ts";
import type { Simulator } from "../simulator/server.ts";
import { type Watched, watchRequests } from "./watch.ts";

export interface DriveOptions {
  readonly plan: Plan;
  /** A model that no other session uses meanwhile: the simulator's window and script go by it. */
  readonly model: string;
  readonly windowTokens: number;
  /** More settings of the session's context. */
  readonly context?: Readonly<Record<string, unknown>>;
  readonly client: Client;
  readonly simulator: Pick<Simulator, "script" | "setModels" | "requests">;
  readonly tools: ToolServer;
  /** Told of each turn when it is over. */
  readonly onTurn?: (turn: TurnSeen) => void;
}

export interface CompactionSeen {
  readonly reason: string;
  readonly steps: readonly string[];
  /** Null where the view changed without a summary. */
  readonly generation: number | null;
  readonly revision: number;
  /** Sizes of the request, estimated. */
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  readonly evicted: number;
}

export interface TurnSeen {
  /** From 1. */
  readonly turn: number;
  readonly calls: number;
  /** The prompt of the turn's last call, in tokens as the provider counted them. */
  readonly contextTokens: number;
  readonly changes: readonly CompactionSeen[];
}

export interface Driven {
  readonly sessionId: string;
  readonly turns: readonly TurnSeen[];
  readonly requests: Watched;
  /** What each failed run said. */
  readonly failures: readonly string[];
  /** One line for each thing that did not go as recorded. */
  readonly differences: readonly string[];
  readonly messages: number;
  /** Changes of the view that are recorded. */
  readonly revisions: number;
  /** Where the session is compacted, in tokens. */
  readonly triggerTokens: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
}

const usageEvent = z.object({ estimate: z.number() });
const compactedEvent = z.object({
  reason: z.string(),
  steps: z.array(z.string()),
  generation: z.number().nullable(),
  revision: z.number(),
  tokens_before: z.number(),
  tokens_after: z.number(),
  evicted: z.number(),
});

const answerEvent = z.object({
  usage: z.object({
    input_tokens: z.number(),
    cache_read_input_tokens: z.number(),
    cache_creation_input_tokens: z.number(),
  }),
});

/**
 * Takes the events of a session's turns. Sizes are in the provider's tokens: hango's estimates are taken times what the last prompt
 * really had of them.
 */
export const sessionWatcher = () => {
  let estimate = 0;
  let factor = 1;
  let contextTokens = 0;
  let changes: CompactionSeen[] = [];
  const take = (type: string, data: unknown): void => {
    if (type === "context.usage") estimate = usageEvent.parse(data).estimate;
    if (type === "context.compacted") {
      const { tokens_before, tokens_after, ...rest } = compactedEvent.parse(data);
      const scaled = (tokens: number): number => Math.round(tokens * factor);
      changes.push({ ...rest, tokensBefore: scaled(tokens_before), tokensAfter: scaled(tokens_after) });
    }
    const answer = type === "message.completed" ? answerEvent.safeParse(data).data : undefined;
    if (answer === undefined) return;
    const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = answer.usage;
    contextTokens = input_tokens + cache_read_input_tokens + cache_creation_input_tokens;
    if (estimate > 0) factor = contextTokens / estimate;
  };
  return {
    onEvent: (type: string, data: string): void => {
      if (type.startsWith("context.") || type === "message.completed") take(type, JSON.parse(data));
    },
    /** What was seen since it was last asked. */
    take: (): Pick<TurnSeen, "contextTokens" | "changes"> => {
      const taken = changes;
      changes = [];
      return { contextTokens, changes: taken };
    },
  };
};

/** A turn's replies, for this session only. One that does not fit in the window is given again to the smaller request that follows. */
const scriptOf = ({ script }: PlannedTurn, model: string): readonly ScriptEntry[] =>
  script.map((entry) => ({ ...entry, match: { ...entry.match, model }, until_whole: true }));

/**
 * Runs all turns, or as many as run to their end, then compares the log with the recording.
 * @throws DemoApiError when the API cannot be used at all
 */
export const drive = async (options: DriveOptions): Promise<Driven> => {
  const { plan, model, windowTokens, client, simulator, tools } = options;
  simulator.setModels({ [model]: { maxInputTokens: windowTokens } });
  const sessionId = await client.createSession({
    ...plan.session(tools.url),
    model,
    context: { ...options.context, max_input_tokens: windowTokens },
  });
  const requests = watchRequests(simulator, model);
  const turns: TurnSeen[] = [];
  const failures: string[] = [];
  const differences: string[] = [];
  const watcher = sessionWatcher();
  for (const [index, turn] of plan.turns.entries()) {
    const steps = turn.script.length;
    simulator.script(scriptOf(turn, model));
    const end = await client
      .runTurn(sessionId, { input: turn.input, max_steps: steps }, () => undefined, watcher.onEvent)
      .catch((error: unknown) => {
        if (!(error instanceof DemoApiError)) throw error;
        failures.push(`turn ${index + 1} of ${plan.turns.length}: ${error.message}`);
        return undefined;
      });
    requests.look();
    const seen: TurnSeen = { turn: index + 1, calls: end?.steps ?? 0, ...watcher.take() };
    turns.push(seen);
    options.onTurn?.(seen);
    // What follows could not be as recorded.
    if (end === undefined) break;
    if (end.steps === steps) continue;
    differences.push(`turn ${index + 1} made ${end.steps} model calls, recorded were ${steps}`);
    break;
  }
  const log = await client.messages(sessionId);
  const verdict = await verifyLog({
    expected: plan.turns.slice(0, turns.length).flatMap((turn) => turn.messages),
    actual: log,
    nameOf: plan.nameOf,
    readFile: (path) => client.file(sessionId, path),
  });
  const runs = await client.runs(sessionId);
  const { revision: revisions, triggerTokens } = await client.context(sessionId);
  const cacheReadTokens = runs.reduce((sum, { usage }) => sum + usage.cache_read_input_tokens, 0);
  const inputTokens = runs.reduce(
    (sum, { usage }) => sum + usage.input_tokens + usage.cache_creation_input_tokens,
    cacheReadTokens,
  );
  return {
    sessionId,
    turns,
    requests: requests.seen(),
    failures,
    differences: [...differences, ...(failures.length === 0 ? [...tools.problems, ...verdict.differences] : [])],
    messages: log.length,
    revisions,
    triggerTokens,
    inputTokens,
    cacheReadTokens,
  };
};
