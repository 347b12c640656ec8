/** The script: a queue of replies and faults, each taken by the first request that it matches. */
import { z } from "zod";

const textBlock = z.strictObject({ type: z.literal("text"), text: z.string() });
/** Without a signature the simulator signs the block; a given one is sent as it is, and is refused when it comes back. */
const thinkingBlock = z.strictObject({
  type: z.literal("thinking"),
  thinking: z.string(),
  signature: z.string().optional(),
});
const redactedBlock = z.strictObject({ type: z.literal("redacted_thinking"), data: z.string().optional() });
const callFields = {
  /** Made from the conversation when absent. */
  id: z.string().optional(),
  name: z.string(),
  input: z.unknown().optional(),
  /** The input's JSON text, streamed byte for byte; wins over `input`. */
  input_json: z.string().optional(),
};
const toolUseBlock = z.strictObject({ type: z.literal("tool_use"), ...callFields });
const serverToolUseBlock = z.strictObject({ type: z.literal("server_tool_use"), ...callFields });
const KNOWN = ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"];
/** Any other block is sent whole in its `content_block_start`. */
const wholeBlock = z
  .looseObject({ type: z.string() })
  .refine((block) => !KNOWN.includes(block.type), { message: "a known block type with wrong fields" });

const block = z.union([textBlock, thinkingBlock, redactedBlock, toolUseBlock, serverToolUseBlock, wholeBlock]);

const reply = z.strictObject({
  /** Blocks, or the text of the only one. */
  content: z.union([z.string(), z.array(block)]),
  /** Default: `tool_use` if a tool is called, else `end_turn`. */
  stop_reason: z
    .enum([
      "end_turn",
      "max_tokens",
      "stop_sequence",
      "tool_use",
      "pause_turn",
      "refusal",
      "model_context_window_exceeded",
      "compaction",
    ])
    .optional(),
  /** Replaces single counts of the reported usage. */
  usage: z.record(z.string(), z.unknown()).optional(),
});

/** How many `content_block_delta` events are sent before it happens; default 1. */
const afterPieces = { after_pieces: z.int().min(0).optional() };

const fault = z.discriminatedUnion("kind", [
  /** An error instead of an answer. */
  z.strictObject({
    kind: z.literal("status"),
    status: z.int().min(400).max(599),
    type: z.string().optional(),
    message: z.string().optional(),
    /** Seconds, as in the header. */
    retry_after: z.number().optional(),
  }),
  /** The prompt is over the window, whatever it really is. */
  z.strictObject({ kind: z.literal("overflow"), tokens: z.int().optional(), limit: z.int().optional() }),
  /** An `error` event inside a stream that began with 200. */
  z.strictObject({
    kind: z.literal("error_event"),
    type: z.string().optional(),
    message: z.string().optional(),
    ...afterPieces,
  }),
  /** The connection breaks; `clean` ends the response in good order, yet without a stop reason. */
  z.strictObject({ kind: z.literal("cut"), clean: z.boolean().optional(), ...afterPieces }),
  /** Nothing more is sent, not even a status unless `after_pieces` is given, until the client goes away. */
  z.strictObject({ kind: z.literal("silence"), ...afterPieces }),
  /** The output stops at this many tokens with `max_tokens`. */
  z.strictObject({ kind: z.literal("truncate"), tokens: z.int().min(0).optional() }),
  z.strictObject({ kind: z.literal("refusal"), explanation: z.string().optional() }),
  /** The turn pauses in a tool of the provider. */
  z.strictObject({ kind: z.literal("pause_turn") }),
  /** An event whose data is no JSON. */
  z.strictObject({ kind: z.literal("malformed_event"), ...afterPieces }),
  /** This many ms before every piece. */
  z.strictObject({ kind: z.literal("slow"), ms_per_piece: z.number().min(0) }),
]);

const isExpression = (source: string): boolean => {
  try {
    return new RegExp(source) instanceof RegExp;
  } catch {
    return false;
  }
};

const match = z.strictObject({
  /** Exact path; default `/v1/messages` and `/v1/chat/completions`. */
  path: z.string().optional(),
  model: z.string().optional(),
  /** `metadata.user_id` or `user`, or a regular expression over the body's text. */
  session: z.string().refine(isExpression, { message: "not a regular expression" }).optional(),
  /** A piece of the body's text, as it stands in the JSON. */
  contains: z.string().optional(),
  purpose: z.enum(["turn", "summarize"]).optional(),
});

const entry = z.strictObject({
  match: match.optional(),
  /** Absent: the unscripted agent answers. */
  reply: reply.optional(),
  fault: fault.optional(),
  /** ms before anything happens. */
  delay_ms: z.number().min(0).optional(),
  /** Name of a gate that the answer waits at: after its first piece, or before anything (`at: "start"`). */
  hold: z.union([z.string(), z.strictObject({ name: z.string(), at: z.enum(["start", "middle"]) })]).optional(),
  /** How many requests it answers; default 1. */
  times: z.union([z.int().min(1), z.literal("always")]).optional(),
  /** Is not used up by an answer that the window had no room for, so that it waits for a request that is small enough. */
  until_whole: z.boolean().optional(),
});

export type ScriptEntry = z.input<typeof entry>;
export type ScriptReply = z.input<typeof reply>;
export type ScriptBlock = z.input<typeof block>;
export type Fault = z.input<typeof fault>;

const entries = z.union([
  z.array(entry),
  z.strictObject({ entries: z.array(entry) }).transform((door) => door.entries),
]);

/** Reads entries as they come over HTTP. @throws z.ZodError */
export const parseEntries = (value: unknown): readonly ScriptEntry[] => entries.parse(value);

export interface Candidate {
  readonly path: string;
  readonly model: string;
  readonly userId: string;
  readonly bodyText: string;
  readonly purpose: "turn" | "summarize";
}

/** The paths that answers come from. */
const ANSWERS: ReadonlySet<string> = new Set(["/v1/messages", "/v1/chat/completions"]);

const matches = (wanted: ScriptEntry["match"], candidate: Candidate): boolean => {
  const isPath = wanted?.path === undefined ? ANSWERS.has(candidate.path) : candidate.path === wanted.path;
  if (!isPath) return false;
  if (wanted === undefined) return true;
  const { model, session, contains, purpose } = wanted;
  return (
    (model === undefined || model === candidate.model) &&
    (purpose === undefined || purpose === candidate.purpose) &&
    (contains === undefined || candidate.bodyText.includes(contains)) &&
    (session === undefined || session === candidate.userId || new RegExp(session).test(candidate.bodyText))
  );
};

export const createScript = () => {
  let queue: { readonly entry: ScriptEntry; left: number }[] = [];
  return {
    add: (added: readonly ScriptEntry[]): void => {
      const checked = parseEntries(added);
      queue.push(
        ...checked.map((one) => ({
          entry: one,
          left: one.times === "always" ? Number.POSITIVE_INFINITY : (one.times ?? 1),
        })),
      );
    },
    /** The first entry that matches; it is used up by this. */
    take: (candidate: Candidate): ScriptEntry | undefined => {
      const found = queue.find((one) => matches(one.entry.match, candidate));
      if (found === undefined) return undefined;
      found.left -= 1;
      if (found.left <= 0) queue = queue.filter((one) => one !== found);
      return found.entry;
    },
    /** Takes back the use of an entry: it is the first again. */
    putBack: (entry: ScriptEntry): void => {
      queue = [{ entry, left: 1 }, ...queue];
    },
    /** How many entries wait. */
    pending: (): number => queue.length,
    clear: (): void => {
      queue = [];
    },
  };
};

export type Script = ReturnType<typeof createScript>;
