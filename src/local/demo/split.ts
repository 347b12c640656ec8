/** Cuts a recording into the turns that a client would have run. */
import { type Block, type Message, memberText, type Recording, RecordingError } from "./recording.ts";

/** Most model calls of one turn that the API takes. */
const MAX_STEPS = 100;

/** A result as it was recorded, by the call that it answers. */
export interface RecordedResult {
  readonly toolUseId: string;
  /** Name of the called tool, as recorded. */
  readonly name: string;
  /** JSON text of the call's input. */
  readonly inputText: string;
  readonly content: unknown;
  readonly isError: boolean;
}

export interface RecordedTurn {
  /** What the user said, the model's answers, and the results between them, as the log should hold them. */
  readonly messages: readonly [Message, ...Message[]];
  /** Results of all calls of the turn. */
  readonly results: readonly RecordedResult[];
}

/** The model's answers of a turn, in order. */
export const answersOf = (turn: RecordedTurn): readonly Message[] =>
  turn.messages.filter((message) => message.role === "assistant");

export interface Split {
  readonly turns: readonly RecordedTurn[];
  /** How many messages at the end were never answered; they are not replayed. */
  readonly unanswered: number;
}

const isResult = (block: Block): boolean => block.type === "tool_result";

interface Call {
  readonly id: string;
  readonly name: string;
  readonly inputText: string;
}

const callsOf = (message: Message): readonly Call[] =>
  message.blocks
    .filter((block) => block.type === "tool_use")
    .map(({ value, text }) => ({
      id: String(value.id),
      name: String(value.name),
      inputText: memberText(text, "input") ?? "{}",
    }));

/** The results of one batch, which must answer exactly the calls before it. */
const resultsOf = (message: Message, calls: readonly Call[], where: string): readonly RecordedResult[] => {
  const given = message.blocks.filter(isResult).map(({ value }) => value);
  if (given.length !== calls.length || new Set(given.map((one) => one.tool_use_id)).size !== given.length)
    throw new RecordingError(`${where} answers ${given.length} of ${calls.length} calls`);
  return given.map((one) => {
    const call = calls.find(({ id }) => id === one.tool_use_id);
    if (call === undefined) throw new RecordingError(`${where} answers a call that was not made`);
    return {
      toolUseId: call.id,
      name: call.name,
      inputText: call.inputText,
      content: one.content ?? "",
      isError: one.is_error === true,
    };
  });
};

const extend = (turn: RecordedTurn, message: Message, results: readonly RecordedResult[] = []): RecordedTurn => ({
  messages: [...turn.messages, message],
  results: [...turn.results, ...results],
});

const withoutLast = ({ messages: [first, ...rest], results }: RecordedTurn): RecordedTurn => ({
  messages: [first, ...rest.slice(0, -1)],
  results,
});

/** Leaves out what nobody answered at the end: an answer with open calls, an input without an answer. */
const closeEnd = (turns: readonly RecordedTurn[], open: readonly Call[]): Split => {
  const last = turns.at(-1);
  if (last === undefined) return { turns, unanswered: 0 };
  const closed = open.length === 0 ? last : withoutLast(last);
  const answered = answersOf(closed).length > 0;
  return {
    turns: answered ? [...turns.slice(0, -1), closed] : turns.slice(0, -1),
    unanswered: (open.length === 0 ? 0 : 1) + (answered ? 0 : 1),
  };
};

const checkLength = (turns: readonly RecordedTurn[]): void => {
  if (turns.length === 0) throw new RecordingError("nothing in it was answered");
  for (const [index, turn] of turns.entries()) {
    const { length } = answersOf(turn);
    if (length > MAX_STEPS)
      throw new RecordingError(
        `turn ${index + 1} has ${length} model calls; hango runs at most ${MAX_STEPS} in a turn`,
      );
  }
};

/**
 * A user message that is more than tool results begins a turn; results belong to the running one. A turn ends where the next begins,
 * even in the midst of its work: there the recorded user spoke before the model had its last word.
 * @throws RecordingError when messages do not fit together, or a turn has more model calls than the API allows
 */
export const splitTurns = ({ messages }: Pick<Recording, "messages">): Split => {
  const done: RecordedTurn[] = [];
  let current: RecordedTurn | undefined;
  let open: readonly Call[] = [];
  let before: Message["role"] = "assistant";
  for (const [index, message] of messages.entries()) {
    const where = `message ${index + 1}`;
    if (message.role === before)
      throw new RecordingError(index === 0 ? `${where} is not a user's` : `${where} has the role of the one before it`);
    before = message.role;
    if (message.role === "assistant") {
      if (current === undefined) throw new RecordingError(`${where} answers nothing`);
      current = extend(current, message);
      open = callsOf(message);
      continue;
    }
    const results = resultsOf(message, open, where);
    open = [];
    if (current !== undefined && results.length > 0)
      current = extend(current, { role: "user", blocks: message.blocks.filter(isResult) }, results);
    const input = message.blocks.filter((block) => !isResult(block));
    if (input.length === 0) continue;
    if (current !== undefined) done.push(current);
    current = { messages: [{ role: "user", blocks: input }], results: [] };
  }
  const split = closeEnd(current === undefined ? done : [...done, current], open);
  checkLength(split.turns);
  return split;
};
