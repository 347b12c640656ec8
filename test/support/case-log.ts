/** The logs of `test/fixtures/cases`: their steps, texts made from a size, and the messages they stand for. */
import { sign } from "../../src/local/simulator/thinking.ts";
import { MODEL, prose } from "./compaction.ts";

export type CaseText = string | { readonly chars: number; readonly of: string; readonly ends_with?: string };

interface CaseCall {
  readonly id: string;
  readonly name: string;
  readonly input?: Readonly<Record<string, unknown>>;
  /** The JSON text of the input, byte for byte. */
  readonly raw_input?: string;
}

interface CaseResult {
  readonly id: string;
  readonly text?: CaseText;
  readonly is_error?: boolean;
}

export type CaseStep =
  | { readonly user: CaseText }
  | { readonly assistant: CaseText }
  | { readonly calls: readonly CaseCall[]; readonly text?: CaseText; readonly thinking?: string }
  | { readonly results: readonly CaseResult[] }
  | { readonly repeat: number; readonly of: readonly CaseStep[] }
  | { readonly compact: "force"; readonly during?: readonly { readonly user: CaseText }[] }
  | { readonly turn: string }
  | { readonly arrives: string }
  | { readonly rewind_turns: number }
  | { readonly rewind_to_seq: number };

/** A message with the exact JSON text of its content. */
export interface CaseMessage {
  readonly role: "user" | "assistant";
  readonly origin: "user" | "assistant" | "tool";
  readonly content: string;
  readonly calls: readonly string[];
  readonly results: readonly string[];
}

const CHINESE = "系统报告显示每个读者在中午之前找到了表格其中列出哪些部分因为缺少索引而变慢团队决定先测量再写下结果";
const CODE = `export const add = (left: number, right: number): number => {\n  if (left === 0) return right;\n  return left + right;\n};\n`;

const textOfKind = (kind: string, chars: number): string => {
  switch (kind) {
    case "prose":
      return prose(Math.ceil(chars / 3), chars);
    case "chinese":
      return CHINESE.repeat(Math.ceil(chars / CHINESE.length));
    case "code":
      return CODE.repeat(Math.ceil(chars / CODE.length));
    default:
      throw new Error(`no texts of ${kind}`);
  }
};

/** A text of a case, always the same one. */
export const caseText = (text: CaseText): string => {
  if (typeof text === "string") return text;
  const { chars, of, ends_with: end = "", ...rest } = text;
  if (Object.keys(rest).length > 0) throw new Error(`unknown keys of a text: ${Object.keys(rest)}`);
  return textOfKind(of, chars).slice(0, chars - end.length) + end;
};

/** A tool's input, in which a text may stand for a string. */
const inputJson = ({ input = {}, raw_input }: CaseCall): string =>
  raw_input ??
  JSON.stringify(input, (_key, value) =>
    value !== null && typeof value === "object" && "chars" in value ? caseText(value as CaseText) : value,
  );

const textBlock = (text: CaseText): string => JSON.stringify({ type: "text", text: caseText(text) });

const thinkingBlock = (thinking: string): string =>
  JSON.stringify({
    type: "thinking",
    thinking,
    signature: sign("thinking", thinking, "", { model: MODEL, apiKey: "simulator", userId: "" }),
  });

const callBlock = (call: CaseCall): string =>
  `{"type":"tool_use","id":${JSON.stringify(call.id)},"name":${JSON.stringify(call.name)},"input":${inputJson(call)}}`;

const message = (
  origin: CaseMessage["origin"],
  blocks: readonly string[],
  more: Partial<Pick<CaseMessage, "calls" | "results">> = {},
): CaseMessage => ({
  role: origin === "assistant" ? "assistant" : "user",
  origin,
  content: `[${blocks.join(",")}]`,
  calls: [],
  results: [],
  ...more,
});

/** The message of a step; undefined for a step that is something to do. */
export const messageOf = (step: CaseStep): CaseMessage | undefined => {
  if ("user" in step) return message("user", [textBlock(step.user)]);
  if ("assistant" in step) return message("assistant", [textBlock(step.assistant)]);
  if ("calls" in step) {
    const { calls, text, thinking } = step;
    const blocks = [
      ...(thinking === undefined ? [] : [thinkingBlock(thinking)]),
      ...(text === undefined ? [] : [textBlock(text)]),
      ...calls.map(callBlock),
    ];
    return message("assistant", blocks, { calls: calls.map(({ id }) => id) });
  }
  if ("results" in step) {
    const blocks = step.results.map(({ id, text = "", is_error: isError }) =>
      JSON.stringify({
        type: "tool_result",
        tool_use_id: id,
        content: caseText(text),
        ...(isError === undefined ? {} : { is_error: isError }),
      }),
    );
    return message("tool", blocks, { results: step.results.map(({ id }) => id) });
  }
  return undefined;
};

const KNOWN = ["user", "assistant", "calls", "results", "compact", "turn", "arrives", "rewind_turns", "rewind_to_seq"];

/** Repeated messages of two words weigh less than the fixed words of a handoff, and would rightly not be compacted: they get some more. */
const SHORT_CHARS = 20;
const FILLER_WORDS = 14;

/** Stands for any text of that length; how many tokens a single letter over and over has is nothing that a case is about. */
const ONE_LETTER = /([a-z])\1{39,}/g;

const lengthened = (text: CaseText): CaseText => {
  if (typeof text !== "string") return text;
  if (text.length < SHORT_CHARS) return `${text} ${prose(FILLER_WORDS, text.length)}`;
  return text.replace(ONE_LETTER, (run) => prose(run.length, text.length).slice(0, run.length));
};

const withFiller = (step: CaseStep): CaseStep => {
  if ("user" in step) return { user: lengthened(step.user) };
  if ("assistant" in step) return { assistant: lengthened(step.assistant) };
  return step;
};

/** A case's steps one by one, repeats written out. @throws for a step that nobody knows */
export const stepsOf = (log: readonly CaseStep[]): readonly CaseStep[] =>
  log.flatMap((step): readonly CaseStep[] => {
    if ("repeat" in step) {
      const numbered = (at: number) => JSON.parse(JSON.stringify(step.of).replaceAll("{i}", String(at)));
      return Array.from({ length: step.repeat }, (_, at) => stepsOf(numbered(at)).map(withFiller)).flat();
    }
    if (!KNOWN.some((key) => key in step)) throw new Error(`unknown step: ${JSON.stringify(step).slice(0, 80)}`);
    return [step];
  });
