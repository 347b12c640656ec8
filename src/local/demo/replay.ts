/** Replays a planned session against a running platform. */
import type { Simulator } from "../simulator/server.ts";
import { type Client, DemoApiError } from "./client.ts";
import { type Figures, figuresOf } from "./figures.ts";
import type { Plan } from "./plan.ts";
import type { Progress } from "./report.ts";
import type { ToolServer } from "./tool-server.ts";
import { verifyLog } from "./verify.ts";

export interface ReplayOptions {
  readonly plan: Plan;
  readonly client: Client;
  readonly simulator: Pick<Simulator, "script" | "pending">;
  readonly tools: ToolServer;
  readonly progress: Progress;
}

export interface Replay {
  readonly sessionId: string;
  readonly figures: Figures;
  /** One line for each thing that did not go as recorded. */
  readonly differences: readonly string[];
  /** Large results that are kept in files. */
  readonly offloaded: number;
}

/**
 * Runs all turns, then compares the log with the recording.
 * @throws DemoApiError when a turn does not run to its end: nothing after it could be as recorded
 */
export const replay = async ({ plan, client, simulator, tools, progress }: ReplayOptions): Promise<Replay> => {
  const sessionId = await client.createSession(plan.session(tools.url));
  const toolMs: number[] = [];
  const differences: string[] = [];
  for (const [index, turn] of plan.turns.entries()) {
    const steps = turn.script.length;
    progress.begin(index + 1);
    simulator.script(turn.script);
    // With as many steps as were recorded, a turn that the recorded user cut short ends where it did then.
    const end = await client
      .runTurn(sessionId, { input: turn.input, max_steps: steps }, progress.answered)
      .catch((error: unknown) => {
        progress.stop();
        if (!(error instanceof DemoApiError)) throw error;
        throw new DemoApiError(`turn ${index + 1} of ${plan.turns.length}: ${error.message}`);
      });
    progress.end(end);
    toolMs.push(tools.takeBusyMs());
    if (end.steps !== steps || simulator.pending() > 0)
      differences.push(`turn ${index + 1} made ${end.steps} model calls, recorded were ${steps}`);
  }
  const log = await client.messages(sessionId);
  const verdict = await verifyLog({
    expected: plan.turns.flatMap((turn) => turn.messages),
    actual: log,
    nameOf: plan.nameOf,
    readFile: (path) => client.file(sessionId, path),
  });
  const runs = await client.runs(sessionId);
  if (runs.length !== plan.turns.length)
    differences.push(`there are ${runs.length} runs for ${plan.turns.length} turns`);
  return {
    sessionId,
    figures: figuresOf({ runs, toolMs, messages: log.length, toolCalls: tools.answered() }),
    differences: [...differences, ...tools.problems, ...verdict.differences],
    offloaded: verdict.offloaded,
  };
};
