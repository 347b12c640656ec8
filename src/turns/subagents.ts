/**
 * Tasks run as sessions of their own, in the process of the run that gave them. The ids of such a session and its run are derived from the call, so
 * that whoever goes on with the parent finds it: a call has one subagent, however often it is made.
 */
import type { Task, TaskOutcome } from "../agent/subagents.ts";
import { idTail, type MessageId, type RunId, type SessionId } from "../protocol/ids.ts";
import { type ToolContext, type ToolResult, toolError } from "../protocol/tool.ts";
import { LeaseLost } from "../store/errors.ts";
import type { LoadedSession } from "../store/loaded-session.ts";
import type { RunRecord } from "../store/runs.ts";
import { lastAnswer, type SubagentIds, startSubagent } from "../store/subagents.ts";
import { textOf } from "./answer-text.ts";
import type { Deps } from "./deps.ts";
import type { RunJournal } from "./journal.ts";
import { loadLimits } from "./load-limits.ts";
import { newRow } from "./rows.ts";
import type { ExecuteRun } from "./run-request.ts";
import type { SubagentSettings } from "./settings.ts";
import { subagentSession } from "./subagent-types.ts";
import type { SubagentUse } from "./subagent-use.ts";
import { NOTHING, plus } from "./used.ts";

export interface SubagentWiring {
  readonly deps: Deps;
  readonly session: LoadedSession;
  readonly types: readonly SubagentSettings[];
  readonly journal: Pick<RunJournal, "delegated">;
  readonly use: SubagentUse;
  readonly leave: AbortSignal;
  readonly withinBudget: () => boolean;
  readonly execute: ExecuteRun;
}

export interface Delegation {
  readonly delegate: (task: Task, context: ToolContext) => Promise<TaskOutcome>;
  /** Resolves when no subagent is at work any more. */
  readonly settled: () => Promise<void>;
}

/** How often a subagent is looked for again that a Worker still holds which has lost the parent, in ms. */
const LOOK_AGAIN_MS = 1_000;

/** Ids with the age of the parent's run, and a hash of run and call in place of randomness. */
export const subagentIds = async (runId: RunId, callId: string): Promise<SubagentIds> => {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${runId}/${callId}`));
  const tail = `${runId.slice("run_".length, "run_".length + 10)}${idTail(new Uint8Array(digest, 0, 16))}`;
  return {
    sessionId: `ses_${tail}` as SessionId,
    runId: `run_${tail}` as RunId,
    inputId: `msg_${tail}` as MessageId,
  };
};

const SAID_NOTHING = "The subagent ended without a last message.";

/** Why a subagent that stopped by itself did not come to its end; undefined for one that did. */
const STOPS: Readonly<Record<string, string>> = {
  max_steps: "it had made as many model calls as it may (`max_steps`)",
  budget_reached: "the budget was reached",
  max_tokens: "its last message was longer than a message may be and was cut off",
  refusal: "the model refused to answer",
  nothing_to_answer: "nothing was left to answer",
  model_context_window_exceeded: "its context window was full",
};

/** What the call is answered with. @param said what the subagent said last; blank for nothing */
export const taskResult = (run: Pick<RunRecord, "status" | "stopReason" | "error">, said: string): ToolResult => {
  const stop = STOPS[run.stopReason ?? ""];
  if (run.status === "completed" && stop === undefined) return { content: said.trim() === "" ? SAID_NOTHING : said };
  const why =
    run.status === "failed"
      ? `The subagent failed (${run.error?.code ?? "internal"}): ${run.error?.message ?? "for a reason inside hango."}`
      : run.status === "cancelled"
        ? "The subagent was cancelled."
        : `The subagent did not finish: ${stop ?? String(run.status)}.`;
  const last = said.trim() === "" ? "It had said nothing." : `What it had said last:\n${said}`;
  return toolError(`${why} Files that it wrote are there.\n${last}`);
};

export const createDelegation = (wiring: SubagentWiring): Delegation => {
  const { session, types, journal, use, leave } = wiring;
  const atWork = new Set<Promise<unknown>>();

  const answered = async (deps: Deps, run: RunRecord): Promise<TaskOutcome> => {
    const text = run.outputText ?? "";
    const content =
      text.trim() === "" && run.status !== "completed" ? await lastAnswer(deps.db, session, run.sessionId) : null;
    return { kind: "answered", result: taskResult(run, content === null ? text : textOf({ content })) };
  };

  const start = async (deps: Deps, task: Task, type: SubagentSettings, ids: SubagentIds, callId: string) =>
    startSubagent(deps.db, {
      parent: session,
      callId,
      ids,
      type: task.type,
      title: task.description,
      ...subagentSession(session, type),
      input: newRow({
        id: ids.inputId,
        origin: "user",
        content: JSON.stringify([{ type: "text", text: task.prompt.toWellFormed() }]),
        runId: ids.runId,
      }),
      token: deps.newId("run"),
      startedAt: new Date(deps.now()).toISOString(),
      limits: loadLimits(deps.config),
    });

  /** @returns null where the subagent's own lease was lost: whether the parent's is lost too, the next start says */
  const execute = async (
    deps: Deps,
    taken: LoadedSession,
    type: string,
    context: ToolContext,
  ): Promise<TaskOutcome | null> => {
    const before = plus(taken.run.totals, taken.run.subagents ?? NOTHING);
    let ended = (): void => undefined;
    try {
      const run = await wiring.execute(deps, {
        session: taken,
        startedMs: deps.now(),
        sink: () => undefined,
        parent: {
          signal: context.signal,
          leave,
          withinBudget: wiring.withinBudget,
          span: context.span,
          type,
          onStarted: (used) => {
            ended = use.watch(used, before);
          },
        },
      });
      return run.status === "running" ? { kind: "left" } : await answered(deps, run);
    } catch (error) {
      if (error instanceof LeaseLost) return null;
      throw error;
    } finally {
      ended();
    }
  };

  const work = async (task: Task, context: ToolContext): Promise<TaskOutcome> => {
    const type = types.find(({ name }) => name === task.type);
    if (type === undefined) throw new Error("the type is checked by the tool");
    // Its round trips are its own run's, not its parent's.
    const deps: Deps = { ...wiring.deps, db: wiring.deps.db.countingApart() };
    const ids = await subagentIds(session.lease.holder, context.callId);
    // From here on there may be one, whatever the store's answer.
    use.watch(() => NOTHING, NOTHING)();
    for (;;) {
      context.signal.throwIfAborted();
      if (leave.aborted) return { kind: "left" };
      const { take, before } = await start(deps, task, type, ids, context.callId);
      switch (take.kind) {
        case "taken": {
          journal.delegated(context.callId, { ...ids, type: task.type });
          const outcome = await execute(deps, take.session, task.type, context);
          if (outcome !== null) return outcome;
          break;
        }
        case "over":
          if (before === null) throw new LeaseLost();
          journal.delegated(context.callId, { ...ids, type: task.type });
          return answered(deps, before);
        case "held":
          await deps.sleep(LOOK_AGAIN_MS);
          break;
        case "waiting":
        case "not_next":
          // Nothing of it is ours: the parent's session was lost.
          throw new LeaseLost();
        default:
          return take satisfies never;
      }
    }
  };

  return {
    delegate: (task, context) => {
      const outcome = work(task, context);
      const done = outcome.catch(() => undefined).finally(() => atWork.delete(done));
      atWork.add(done);
      return outcome;
    },
    settled: async () => {
      while (atWork.size > 0) await Promise.all(atWork);
    },
  };
};
