/** What the model says and its tool answers in one turn of a plan. */
import type { ModelResponse } from "../../src/protocol/messages.ts";
import type { Tool } from "../../src/protocol/tool.ts";
import type { Judge } from "./judge.ts";
import { imageBlock, scriptText } from "./random-log.ts";
import type { SessionPlan, ToolStep, TurnPlan, Words } from "./session-plan.ts";

/** About as any script runs; a size by it is only meant to be large. */
const CHARS_PER_TOKEN = 2.5;

/** A plan's words as text. */
export const wordsOf = (plan: SessionPlan, { script, chars, share = 0 }: Words): string =>
  scriptText(script, share > 0 ? Math.ceil(share * plan.windowTokens * CHARS_PER_TOKEN) : chars);

/** Skills are few, so that they are loaded again; the text of most is long enough to be in the record when it is lost (R5). */
const SKILLS = ["refunds", "pdf-forms", "on-call"];
const LONG_SKILL_CHARS = 5_600;

export interface ScriptedTurn {
  /** The next answer, to a request with this link and of this size. */
  answer(link: string, reading: number): ModelResponse;
  readonly tools: readonly Tool[];
  stepOf(callId: string): ToolStep | undefined;
}

export interface TurnScript {
  readonly plan: SessionPlan;
  /** Null for a turn that only has its last word. */
  readonly turn: TurnPlan | null;
  readonly thinks: boolean;
  /** Every answer must think. */
  readonly demands: boolean;
  readonly thought: Judge["thought"];
  readonly newCallId: () => string;
}

export const scriptedTurn = (script: TurnScript): ScriptedTurn => {
  const { plan, turn, thinks, demands, thought, newCallId } = script;
  const steps = turn === null ? [] : Array.from({ length: turn.rounds }, () => turn.steps).flat();
  const made = new Map<string, ToolStep>();
  let done = 0;

  const callOf = (step: ToolStep) => {
    const id = newCallId();
    made.set(id, step);
    if (step.sort === "skill") {
      const name = SKILLS[made.size % SKILLS.length];
      return { id, name: "load_skill", inputText: JSON.stringify({ name }) };
    }
    return step.sort === "compact"
      ? { id, name: "compact_conversation", inputText: "{}" }
      : {
          id,
          name: "read_file",
          inputText: JSON.stringify({ file_path: "/src/a.ts", note: wordsOf(plan, step.args) }),
        };
  };

  const textOf = ({ sort, result }: ToolStep): string =>
    sort === "skill" && result.chars > 50
      ? "Check the order, then the payment. ".repeat(LONG_SKILL_CHARS / 35)
      : wordsOf(plan, result);

  const readFile: Tool = {
    name: "read_file",
    description: "Reads a file.",
    inputSchema: { type: "object", properties: { file_path: { type: "string" }, note: { type: "string" } } },
    idempotent: true,
    parallel: true,
    offload: true,
    call: async (_input, { callId }) => {
      const step = made.get(callId);
      if (step === undefined) throw new Error("a call that nobody made");
      const text = textOf(step);
      if (step.sort !== "image") return { content: text, ...(step.sort === "error" ? { isError: true } : {}) };
      return { content: [{ type: "text", text }, imageBlock] };
    },
  };

  return {
    stepOf: (callId) => made.get(callId),
    answer: (link, reading) => {
      const step = steps[done++];
      const isThinking = thinks && (demands || (step?.thinks ?? turn?.thinks ?? false));
      const blocks = isThinking ? [thought(`Let me see, step ${done}.`, link)] : [];
      const usage = { inputTokens: reading, outputTokens: 10, cacheReadTokens: 0, cacheWriteTokens: 0 };
      const common = { id: "msg", model: plan.model, usage } as const;
      if (step === undefined) {
        const text = turn === null ? "Done." : wordsOf(plan, turn.answer);
        blocks.push(JSON.stringify({ type: "text", text }));
        return { ...common, content: `[${blocks.join(",")}]`, text, calls: [], stopReason: "end_turn" };
      }
      if (step.says) blocks.push(JSON.stringify({ type: "text", text: "Now the next step." }));
      const calls = Array.from({ length: step.calls }, () => callOf(step));
      for (const { id, name, inputText } of calls)
        blocks.push(`{"type":"tool_use","id":"${id}","name":"${name}","input":${inputText}}`);
      return { ...common, content: `[${blocks.join(",")}]`, text: "", calls, stopReason: "tool_use" };
    },
    tools: [readFile, { ...readFile, name: "load_skill", description: "Shows the instructions of a skill." }],
  };
};
