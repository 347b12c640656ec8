/** Puts an answer of chat completions together from its chunks, as blocks of the Messages API, which is what the log holds. */
import { isRecord } from "../protocol/is-record.ts";
import type { ModelResponse, StopReason, ToolCall, Usage } from "../protocol/messages.ts";
import { storedCallId } from "./chat-call-ids.ts";
import { ContextOverflowError, ModelError } from "./errors.ts";
import type { StreamDelta } from "./provider.ts";
import { cleanJson, readToolInput } from "./tool-input.ts";

interface CallDraft {
  id: string;
  name: string;
  inputText: string;
}

type Kind = "thinking" | "text";

/** An answer being written; `addChunk` changes it. */
export interface ChatDraft {
  id: string;
  /** Text so far; in the order in which the kinds began. */
  readonly texts: Map<Kind, string>;
  readonly calls: CallDraft[];
  /** Where in `calls` the call with an index of the stream stands. */
  readonly places: Map<number, number>;
  finishReason: string | null;
  refused: boolean;
  /** Null while the server has said nothing of it. */
  usage: Usage | null;
}

export const newChatDraft = (): ChatDraft => ({
  id: "",
  texts: new Map(),
  calls: [],
  places: new Map(),
  finishReason: null,
  refused: false,
  usage: null,
});

type Json = Readonly<Record<string, unknown>>;

const numberAt = (value: unknown, name: string): number | undefined => {
  const found = isRecord(value) ? value[name] : undefined;
  return typeof found === "number" && Number.isFinite(found) && found >= 0 ? found : undefined;
};

/** A prompt has tokens: a count of none is no count, and must never pass for a reading (E4). */
const readUsage = (usage: unknown): Usage | null => {
  const prompt = numberAt(usage, "prompt_tokens") ?? 0;
  if (!isRecord(usage) || prompt === 0) return null;
  const cached =
    numberAt(usage.prompt_tokens_details, "cached_tokens") ?? numberAt(usage, "prompt_cache_hit_tokens") ?? 0;
  const cacheReadTokens = Math.min(cached, prompt);
  return {
    inputTokens: prompt - cacheReadTokens,
    outputTokens: numberAt(usage, "completion_tokens") ?? 0,
    cacheReadTokens,
    cacheWriteTokens: 0,
  };
};

const addText = (draft: ChatDraft, kind: Kind, text: unknown): readonly StreamDelta[] => {
  if (typeof text !== "string" || text === "") return [];
  const before = draft.texts.get(kind) ?? "";
  draft.texts.set(kind, before + text);
  return [{ kind, index: [...draft.texts.keys()].indexOf(kind), offset: before.length, text }];
};

/** The call that a piece belongs to: by its index; some servers give none, or the same to every call. */
const callAt = (draft: ChatDraft, piece: Json, id: string, name: string): CallDraft => {
  const index = typeof piece.index === "number" ? piece.index : undefined;
  const place = index === undefined ? draft.calls.length - 1 : draft.places.get(index);
  const known = place === undefined ? undefined : draft.calls[place];
  const isOther = known !== undefined && id !== "" && known.id !== "" && id !== known.id && name !== "";
  // Without an index a call comes whole, and one that names its tool is a new one.
  const isNext = index === undefined && name !== "";
  if (known !== undefined && !isOther && !isNext) return known;
  const call = { id: "", name: "", inputText: "" };
  draft.calls.push(call);
  if (index !== undefined) draft.places.set(index, draft.calls.length - 1);
  return call;
};

const addCall = (draft: ChatDraft, piece: unknown): void => {
  if (!isRecord(piece)) return;
  const made = isRecord(piece.function) ? piece.function : {};
  const id = typeof piece.id === "string" ? piece.id : "";
  const name = typeof made.name === "string" ? made.name : "";
  const call = callAt(draft, piece, id, name);
  call.id ||= id;
  call.name ||= name;
  if (typeof made.arguments === "string") call.inputText += made.arguments;
  else if (isRecord(made.arguments)) call.inputText += JSON.stringify(made.arguments);
};

/**
 * Takes in one chunk.
 * @returns what to tell a listener
 */
export const addChunk = (draft: ChatDraft, chunk: unknown): readonly StreamDelta[] => {
  if (!isRecord(chunk)) return [];
  if (typeof chunk.id === "string") draft.id ||= chunk.id;
  draft.usage = readUsage(chunk.usage) ?? draft.usage;
  const choice: unknown = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
  if (!isRecord(choice)) return [{ kind: "progress" }];
  const delta = isRecord(choice.delta) ? choice.delta : {};
  if (typeof delta.refusal === "string" && delta.refusal !== "") draft.refused = true;
  // The same text under two names where a server writes for old and new clients.
  const reasoning = delta.reasoning_content ?? delta.reasoning;
  const told = [
    ...addText(draft, "thinking", reasoning),
    ...addText(draft, "text", delta.content),
    ...addText(draft, "text", delta.refusal),
  ];
  if (Array.isArray(delta.tool_calls)) for (const piece of delta.tool_calls) addCall(draft, piece);
  if (typeof choice.finish_reason === "string" && choice.finish_reason !== "")
    draft.finishReason = choice.finish_reason;
  return told.length === 0 ? [{ kind: "progress" }] : told;
};

/** Whether the answer has come to its end; without a reason for it, it is none (platform.md). */
export const isFinished = (draft: ChatDraft): boolean => draft.finishReason !== null;

const STOP_REASONS: ReadonlyMap<string, StopReason> = new Map([
  ["stop", "end_turn"],
  ["eos_token", "end_turn"],
  ["stop_sequence", "end_turn"],
  ["length", "max_tokens"],
  ["tool_calls", "tool_use"],
  ["function_call", "tool_use"],
  ["content_filter", "refusal"],
]);

const stopReasonOf = (draft: ChatDraft, reason: string): StopReason | undefined => {
  if (draft.refused) return "refusal";
  const known = STOP_REASONS.get(reason);
  // Not every server says `tool_calls` for an answer that has some, or has some where it says so.
  if (known === "end_turn" && draft.calls.length > 0) return "tool_use";
  return known === "tool_use" && draft.calls.length === 0 ? "end_turn" : known;
};

const textBlock = (kind: Kind, text: string): string => {
  const literal = cleanJson(JSON.stringify(text));
  // Reasoning has no signature, which is what tells it from thinking that Anthropic signed (V5).
  return kind === "text"
    ? `{"type":"text","text":${literal}}`
    : `{"type":"thinking","thinking":${literal},"signature":""}`;
};

/** No arguments, in the ways in which models write that. */
const inputOf = (text: string) => readToolInput(text.trim() === "null" ? "" : text, "{}");

export interface FinishOptions {
  readonly requestId: string | undefined;
  /** As the request named it. */
  readonly model: string;
  /** What the answer was allowed. */
  readonly maxTokens: number;
  /** Whether a call of the request has this id. */
  readonly isTaken: (id: string) => boolean;
  readonly newCallId: () => string;
}

/** An answer that was cut off before its first word, and not by its own limit: the prompt has filled the window (context.md section 8). */
const fillsWindow = (draft: ChatDraft, maxTokens: number): boolean =>
  draft.finishReason === "length" &&
  draft.calls.length === 0 &&
  (draft.texts.get("text") ?? "").trim() === "" &&
  (draft.usage === null ? !draft.texts.has("thinking") : draft.usage.outputTokens < maxTokens);

/**
 * The finished answer.
 * @throws ModelError `stream_cut` where the end is missing or a call has no name, `server` for a finish reason that is not known
 * @throws ContextOverflowError for an empty answer that the window cut off
 */
export const finishChat = (draft: ChatDraft, options: FinishOptions): ModelResponse => {
  const source = options.requestId === undefined ? {} : { requestId: options.requestId };
  if (draft.finishReason === null) throw new ModelError({ kind: "stream_cut" }, source);
  if (fillsWindow(draft, options.maxTokens)) {
    const paid = draft.usage === null ? null : { model: options.model, usage: draft.usage };
    throw new ContextOverflowError({}, source, paid);
  }
  const stopReason = stopReasonOf(draft, draft.finishReason);
  if (stopReason === undefined)
    throw new ModelError({ kind: "server" }, { ...source, detail: `finish reason "${draft.finishReason}"` });

  const ids = new Set<string>();
  const calls = draft.calls.map((call) => {
    if (call.name === "")
      throw new ModelError({ kind: "stream_cut" }, { ...source, detail: "a tool call without a name" });
    const id = storedCallId(call.id, (each) => ids.has(each) || options.isTaken(each), options.newCallId);
    ids.add(id);
    return { id, name: call.name.toWellFormed(), input: inputOf(call.inputText) };
  });
  const blocks = [
    // Blank text is refused by the Messages API on its way back, should the session go on there.
    ...[...draft.texts].filter(([, text]) => text.trim() !== "").map(([kind, text]) => textBlock(kind, text)),
    ...calls.map(
      ({ id, name, input }) =>
        `{"type":"tool_use","id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"input":${input.stored}}`,
    ),
  ];
  const said = (draft.texts.get("text") ?? "").toWellFormed();
  return {
    id: draft.id,
    // Not as the server has it, which may be the path of a file: usage and profiles go by the session's name of it.
    model: options.model,
    content: `[${blocks.join(",")}]`,
    text: said.trim() === "" ? "" : said,
    calls: calls.map(
      ({ id, name, input }): ToolCall => ({
        id,
        name,
        inputText: input.raw,
        ...(input.valid ? {} : { invalid: true }),
      }),
    ),
    stopReason,
    usage: draft.usage ?? { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
    ...(draft.usage === null ? { usageMissing: true } : {}),
  };
};
