/** One pass of micro-compaction over rows, with everything around it in this process. */
import { defaultEstimator, estimateRow } from "../../src/context/estimate-request.ts";
import { NO_GUARDS } from "../../src/context/guards/state.ts";
import { type MicroOutcome, microPass } from "../../src/context/micro.ts";
import { type MicroState, NO_MICRO } from "../../src/context/micro-state.ts";
import type { MicroInput } from "../../src/context/micro-view.ts";
import type { HistoryPort, SummariserPort, SummaryCall, SummaryFailure } from "../../src/context/ports.ts";
import { budgets } from "../../src/context/trigger.ts";
import { createRenderer, type SizedView } from "../../src/context/view.ts";
import { EMPTY_VIEW, type ViewState } from "../../src/context/view-state.ts";
import type { LogRow } from "../../src/protocol/messages.ts";

export const SESSION = "ses_00000000000000000000000000";

/** Tokens, about; different for each number. */
export const passage = (tokens: number, name: string): string =>
  Array.from(
    { length: Math.ceil(tokens / defaultEstimator.text(`the entry ${name}99 was in order, `)) },
    (_, at) => `the entry ${name}${at} was in order`,
  ).join(", ");

export type Said =
  | string
  | { readonly failure: SummaryFailure }
  | { readonly stopReason: string; readonly text: string };

export interface MicroSession {
  view: ViewState;
  state: MicroState;
  guards: MicroInput["guards"];
  nextGeneration: number;
  /** What the summariser was asked. */
  readonly asked: SummaryCall[];
  /** The rows that were written to the history, in the order in which they were. */
  readonly written: (readonly LogRow[])[];
  /** Makes a pass, and takes over what comes of it as the store would. */
  pass(rows: readonly LogRow[], changes?: Partial<MicroInput>): Promise<MicroOutcome>;
  measure(rows: readonly LogRow[]): SizedView;
}

class Scripted extends Error {
  readonly failure: SummaryFailure;
  constructor(failure: SummaryFailure) {
    super(failure);
    this.failure = failure;
  }
}

export interface MicroSessionOptions {
  readonly windowTokens?: number;
  readonly keepFrac?: number;
  readonly defragTokens?: number;
  /** What the summariser answers, call by call; the last again and again. */
  readonly says?: readonly Said[];
  readonly historyFails?: boolean;
  readonly thinkingBound?: boolean;
}

/** A session with a window of 20,000 tokens unless given, whose newest 1,700 stay. */
export const microSession = (options: MicroSessionOptions = {}): MicroSession => {
  const { windowTokens = 20_000, keepFrac = 0.1, defragTokens = 2_000, says = ["It was done."] } = options;
  const asked: SummaryCall[] = [];
  const written: (readonly LogRow[])[] = [];
  const newRenderer = () =>
    createRenderer({
      sessionId: SESSION,
      estimateTokens: defaultEstimator.text,
      messageTokens: (message) => estimateRow(message.content),
    });
  const summariser: SummariserPort = {
    model: "summariser",
    windowTokens: 100_000,
    failureOf: (error) => (error instanceof Scripted ? error.failure : "transient"),
    call: async (call) => {
      const said = says[Math.min(asked.length, says.length - 1)] ?? "";
      asked.push(call);
      if (typeof said !== "string" && "failure" in said) throw new Scripted(said.failure);
      const answer = typeof said === "string" ? { text: said, stopReason: "end_turn" } : said;
      const usage = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0 };
      return { ...answer, usage, model: "summariser" };
    },
  };
  const history: HistoryPort = {
    append: async (rows) => {
      if (options.historyFails === true) throw new Error("no storage");
      written.push(rows);
      return {
        pointer: { kind: "file", path: `/conversation_history/${SESSION}.md` },
        sizeBytes: 1,
        sha256: "0".repeat(64),
      };
    },
  };
  const session: MicroSession = {
    view: EMPTY_VIEW,
    state: NO_MICRO,
    guards: NO_GUARDS,
    nextGeneration: 1,
    asked,
    written,
    measure: (rows) => newRenderer().measure(rows, session.view),
    pass: async (rows, changes = {}) => {
      const renderer = newRenderer();
      const outcome = await microPass({
        sessionId: SESSION,
        rows,
        view: session.view,
        guards: session.guards,
        state: session.state,
        settings: { everyNTurns: 1, defragTokens },
        budgets: budgets(
          { maxInputTokens: windowTokens, outputInWindow: false, maxMediaItems: 600, known: true },
          { triggerFrac: 0.85, keepFrac, maxTokens: 1_000 },
        ),
        thinkingBound: options.thinkingBound ?? false,
        maxMarks: 3,
        measure: (view) => renderer.measure(rows, view),
        estimateTokens: defaultEstimator.text,
        rowTokens: (row, view) => renderer.row(row, view).tokens,
        attemptId: `cmp_${asked.length}`,
        nextGeneration: session.nextGeneration,
        history,
        summariser,
        ...changes,
      });
      if (outcome.kind === "made") {
        // As it comes back from the store: JSON (rehydration).
        session.view = JSON.parse(JSON.stringify(outcome.change.view)) as ViewState;
        session.guards = outcome.change.guards;
        session.nextGeneration++;
      }
      if (outcome.kind === "made" || outcome.kind === "failed")
        session.state = JSON.parse(JSON.stringify(outcome.state)) as MicroState;
      if (outcome.kind === "failed") session.guards = outcome.guards;
      return outcome;
    },
  };
  return session;
};
