/** Makes recordings fit for a replay over HTTP, and several short ones into one session. */
import { PROVIDER_TOOL } from "../demo/plan.ts";
import { type Block, type Message, type Recording, RecordingError } from "../demo/recording.ts";

type Value = Readonly<Record<string, unknown>>;

const changed = (value: Value): Block => ({
  type: String(value.type),
  value,
  text: JSON.stringify(value),
});

/** Stands where a message would be left without a block. */
const LEFT_OUT = changed({ type: "text", text: "[left out of the replay]" });

const isServerCall = ({ type }: Block): boolean => type === "server_tool_use";
const isServerResult = ({ type, value }: Block): boolean =>
  type !== "tool_result" && type.endsWith("_tool_result") && typeof value.tool_use_id === "string";

/** An HTTP tool answers in text: what else was recorded is named. */
const inText = (block: Block): Block => {
  const { content } = block.value;
  if (block.type !== "tool_result" || !Array.isArray(content)) return block;
  const parts: readonly Value[] = content;
  if (parts.every(({ type }) => type === "text")) return block;
  const named = parts.map((part) => (part.type === "text" ? part : { type: "text", text: `[${String(part.type)}]` }));
  return changed({ ...block.value, content: named });
};

const isReplayable = (block: Block, offersServerTools: boolean): boolean => {
  if (block.type === "compaction" || block.type === "container_upload") return false;
  return offersServerTools || !(isServerCall(block) || isServerResult(block));
};

/**
 * The recording without what cannot be replayed over HTTP: blocks that only the provider makes and tools that a session cannot be given
 * are left out, other than text in a tool's result is named in text.
 */
export const replayable = (recording: Recording): Recording => {
  const tools = recording.tools.filter(
    ({ type }) => typeof type !== "string" || type === "custom" || PROVIDER_TOOL.test(type),
  );
  const offersServerTools = tools.length === recording.tools.length;
  return {
    ...recording,
    tools,
    messages: recording.messages.map(({ role, blocks }) => {
      const kept = blocks.filter((block) => isReplayable(block, offersServerTools)).map(inText);
      return { role, blocks: kept.length === 0 ? [LEFT_OUT] : kept };
    }),
  };
};

/** The recording without a last answer whose calls nobody answered. */
const closed = ({ messages }: Recording): readonly Message[] =>
  messages.at(-1)?.blocks.some(({ type }) => type === "tool_use") === true ? messages.slice(0, -1) : messages;

/** Joins what a user says next to what a user said last, results included. */
const joined = (parts: readonly (readonly Message[])[]): readonly Message[] => {
  const messages: Message[] = [];
  for (const message of parts.flat()) {
    const last = messages.at(-1);
    if (last?.role === "user" && message.role === "user")
      messages[messages.length - 1] = { role: "user", blocks: [...last.blocks, ...message.blocks] };
    else messages.push(message);
  }
  return messages;
};

const CALLS = ["tool_use", "server_tool_use"];

/** Gives the calls of a part ids of their own: recordings themselves tell calls of one id apart by a number behind it. */
const apart = (messages: readonly Message[], part: number): readonly Message[] =>
  messages.map(({ role, blocks }) => ({
    role,
    blocks: blocks.map((block): Block => {
      const { value } = block;
      if (CALLS.includes(block.type)) return { ...block, value: { ...value, id: `${String(value.id)}_part${part}` } };
      if (typeof value.tool_use_id !== "string") return block;
      return { ...block, value: { ...value, tool_use_id: `${value.tool_use_id}_part${part}` } };
    }),
  }));

/**
 * Joins recordings into one session: the system prompt of the first, the tools of all, of two tools of one name the first.
 * @throws RecordingError when there is nothing to join
 */
export const chain = (id: string, recordings: readonly Recording[]): Recording => {
  const [first] = recordings;
  if (first === undefined) throw new RecordingError("there is nothing to chain");
  const tools = new Map<unknown, Value>();
  for (const tool of recordings.flatMap((one) => one.tools)) if (!tools.has(tool.name)) tools.set(tool.name, tool);
  return {
    id,
    licence: "see the parts",
    copyright: "see the parts",
    system: first.system,
    tools: [...tools.values()],
    messages: joined(recordings.map((one, part) => (part === 0 ? closed(one) : apart(closed(one), part)))),
  };
};
