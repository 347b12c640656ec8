/**
 * Random logs of the shapes that sessions have: long tool loops, parallel batches, huge messages, thinking, images, injected rows,
 * several requests in a row, identical messages, all scripts, and a batch in flight at the end.
 */
import fc from "fast-check";
import type { LogRow } from "../../src/protocol/messages.ts";
import { type LogBuilder, log, type ResultOf, toolResult, toolUse } from "./log.ts";

export interface RandomLogOptions {
  /** Most steps; a step is a message, a batch or a loop of up to 12 rounds. 30 unless given. */
  readonly maxSteps?: number;
  /** Most characters of one huge text; 20,000 unless given. */
  readonly maxChars?: number;
  /** Whether the end may be a batch in flight; true unless given. */
  readonly inFlight?: boolean;
  /** Whether a call in the middle may have no result, as imported logs have it; false unless given. */
  readonly orphans?: boolean;
  /** Seq of the first row and prefix of all call ids, to append one log to another. */
  readonly from?: number;
  readonly idPrefix?: string;
}

/** A piece of each script and kind of content that tokenizers tell apart (E3). */
export const SCRIPTS: Readonly<Record<string, string>> = {
  latin: "The migration of the billing tables is done in three steps, ",
  code: "const total = rows.reduce((sum, row) => sum + row.amount, 0);\n",
  json: '{"id": 4711, "path": "/var/log/app.log", "ok": true}, ',
  digits: "3141592653589793 2718281828 ",
  hex: "d41d8cd98f00b204e9800998ecf8427e",
  chinese: "数据库迁移已经完成，请检查结果。",
  japanese: "データベースの移行が完了しました。",
  korean: "데이터베이스 마이그레이션이 완료되었습니다. ",
  cyrillic: "Перенос таблиц завершён, проверьте результат. ",
  arabic: "تم نقل الجداول، يرجى التحقق من النتيجة. ",
  thai: "การย้ายตารางเสร็จสมบูรณ์แล้ว ",
  hindi: "तालिकाओं का स्थानांतरण पूरा हो गया है। ",
  emoji: "👩‍👩‍👧‍👦🚀✅ ",
  escapes: 'a "quoted" \\ back\\slash \t tab \u0000 nul $& $1 {{x}} "tool_result" ',
};

/** A text of so many UTF-16 units, never ending inside a pair. */
export const scriptText = (script: string, chars: number): string => {
  const piece = SCRIPTS[script] ?? "x ";
  return piece
    .repeat(Math.ceil(chars / piece.length))
    .slice(0, Math.max(chars, 1))
    .toWellFormed()
    .replace(/^\s/, "x");
};

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export const imageBlock = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } } as const;

interface Words {
  readonly script: string;
  readonly chars: number;
}

type Step =
  | { readonly kind: "user" | "event" | "injected" | "assistant" | "thinking" | "same"; readonly words: Words }
  | { readonly kind: "image" }
  | {
      readonly kind: "batch";
      readonly calls: number;
      readonly words: Words;
      readonly extra: "none" | "thinking" | "image" | "error";
    }
  | { readonly kind: "loop"; readonly rounds: number; readonly words: Words }
  | { readonly kind: "orphan" };

type Ending =
  | { readonly kind: "none" }
  | { readonly kind: "in_flight"; readonly calls: number; readonly answered: number };

const wordsOf = (maxChars: number): fc.Arbitrary<Words> =>
  fc.record({
    script: fc.constantFrom(...Object.keys(SCRIPTS)),
    chars: fc.oneof(
      { weight: 12, arbitrary: fc.integer({ min: 1, max: 200 }) },
      { weight: 3, arbitrary: fc.integer({ min: 200, max: 2_000 }) },
      { weight: 1, arbitrary: fc.integer({ min: 2_000, max: Math.max(maxChars, 2_000) }) },
    ),
  });

const stepOf = (options: RandomLogOptions): fc.Arbitrary<Step> => {
  const words = wordsOf(options.maxChars ?? 20_000);
  const plain = (kind: "user" | "event" | "injected" | "assistant" | "thinking" | "same") =>
    fc.record({ kind: fc.constant(kind), words });
  return fc.oneof(
    { weight: 6, arbitrary: plain("user") },
    { weight: 6, arbitrary: plain("assistant") },
    { weight: 1, arbitrary: plain("event") },
    { weight: 1, arbitrary: plain("injected") },
    { weight: 2, arbitrary: plain("thinking") },
    { weight: 2, arbitrary: plain("same") },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: "image" }) },
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant("batch" as const),
        calls: fc.integer({ min: 1, max: 6 }),
        words,
        extra: fc.constantFrom(
          "none" as const,
          "none" as const,
          "thinking" as const,
          "image" as const,
          "error" as const,
        ),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant("loop" as const), rounds: fc.integer({ min: 2, max: 12 }), words }),
    },
    ...(options.orphans === true ? [{ weight: 1, arbitrary: fc.constant<Step>({ kind: "orphan" }) }] : []),
  );
};

const endingOf = (options: RandomLogOptions): fc.Arbitrary<Ending> => {
  const none = fc.constant<Ending>({ kind: "none" });
  if (options.inFlight === false) return none;
  const inFlight = fc.integer({ min: 1, max: 5 }).chain((calls) =>
    fc.record({
      kind: fc.constant("in_flight" as const),
      calls: fc.constant(calls),
      answered: fc.integer({ min: 0, max: calls - 1 }),
    }),
  );
  return fc.oneof({ weight: 3, arbitrary: none }, { weight: 2, arbitrary: inFlight });
};

const resultOf = (id: string, text: string, extra: "none" | "thinking" | "image" | "error"): ResultOf => {
  if (extra === "image") return { id, blocks: [{ type: "text", text }, imageBlock] };
  return { id, text, ...(extra === "error" ? { isError: true } : {}) };
};

/** Applies the steps to a log. What a step says is the same for the same step, so that identical messages come by themselves. */
const build = (steps: readonly Step[], ending: Ending, options: RandomLogOptions): readonly LogRow[] => {
  const built: LogBuilder = log(options.from === undefined ? {} : { from: options.from });
  let calls = 0;
  const newCall = (): string => `${options.idPrefix ?? "c"}${calls++}`;
  const batch = (count: number, text: string, extra: "none" | "thinking" | "image" | "error"): void => {
    const ids = Array.from({ length: count }, newCall);
    const thought = extra === "thinking" ? [{ type: "thinking", thinking: text, signature: "sig" }] : [];
    built.row("assistant", [...thought, ...ids.map(toolUse)], ids);
    built.row(
      "tool",
      ids.map((id) => toolResult(resultOf(id, text, extra))),
    );
  };
  for (const step of steps) {
    switch (step.kind) {
      case "user":
      case "event":
      case "injected":
      case "assistant":
        built[step.kind](scriptText(step.words.script, step.words.chars));
        break;
      case "thinking":
        built.thinking(scriptText(step.words.script, step.words.chars), "So it is.");
        break;
      case "same":
        built.user("go on");
        break;
      case "image":
        built.row("user", [{ type: "text", text: "look at this" }, imageBlock]);
        break;
      case "batch":
        batch(step.calls, scriptText(step.words.script, step.words.chars), step.extra);
        break;
      case "loop":
        for (let nth = 0; nth < step.rounds; nth++) batch(1, scriptText(step.words.script, step.words.chars), "none");
        break;
      case "orphan":
        built.tools(newCall()).user("are you there?");
        break;
      default:
        step satisfies never;
    }
  }
  if (ending.kind === "in_flight") {
    built.tools(...Array.from({ length: ending.calls }, newCall));
    if (ending.answered > 0) built.answered("done", ending.answered);
  }
  return built.rows;
};

/** A log that begins with a user's request, unless it is appended to another one (`from`). */
export const randomLog = (options: RandomLogOptions = {}): fc.Arbitrary<readonly LogRow[]> =>
  fc
    .tuple(
      wordsOf(options.maxChars ?? 20_000),
      fc.array(stepOf(options), { maxLength: options.maxSteps ?? 30, size: "max" }),
      endingOf(options),
    )
    .map(([first, steps, ending]) =>
      build(options.from === undefined ? [{ kind: "user", words: first }, ...steps] : steps, ending, options),
    );
