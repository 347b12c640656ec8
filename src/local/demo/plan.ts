/** From a recording to what is sent: the session, each turn's input, and the simulator's script. */
import { OWN_TOOLS } from "../../protocol/own-tools.ts";
import type { ScriptBlock, ScriptEntry } from "../simulator/script.ts";
import { type Block, type Message, memberText, type Recording, RecordingError } from "./recording.ts";
import { answersOf, type RecordedResult, splitTurns } from "./split.ts";

/** A model that the simulator knows, whose thinking is bound to what comes before it, and whose window takes any of the recordings. */
const MODEL = "claude-sonnet-5-5";
/** More than any recorded answer has, so that none is cut. */
const MAX_TOKENS = 64_000;
/** Longest description of a tool that the API takes. */
const MAX_DESCRIPTION = 20_000;

export interface PlannedTurn {
  /** The `input` of the turn, as the API takes it. */
  readonly input: readonly object[];
  /** One reply for each recorded answer. */
  readonly script: readonly ScriptEntry[];
  readonly messages: readonly Message[];
  readonly results: readonly RecordedResult[];
}

export interface Plan {
  /** The session to create. @param toolsUrl where the recorded tools are answered; a tool's name is appended */
  readonly session: (toolsUrl: string) => Readonly<Record<string, unknown>>;
  readonly turns: readonly PlannedTurn[];
  /** A recorded tool's name in the session. */
  readonly nameOf: (recorded: string) => string;
  /** What differs from the recording on purpose, for the person who watches. */
  readonly notes: readonly string[];
}

type Tool = Readonly<Record<string, unknown>>;

/** A tool, once it is known where it is answered. */
type SessionTool = (toolsUrl: string) => object;

/** Types of the tools that the provider runs and a session can be given. */
export const PROVIDER_TOOL = /^(web_search|web_fetch|code_execution)_/;

/** Keeps a recorded tool apart from hango's own of the same name. */
const renamer = (names: readonly string[]): ((name: string) => string) => {
  const renamed = new Map<string, string>();
  for (const name of names) {
    let free = name;
    while (OWN_TOOLS.includes(free) || (free !== name && names.includes(free))) free = `recorded_${free}`;
    renamed.set(name, free);
  }
  return (name) => renamed.get(name) ?? name;
};

const callNames = (messages: readonly Message[]): readonly string[] =>
  messages.flatMap(({ blocks }) =>
    blocks.filter(({ type }) => type === "tool_use").map(({ value }) => String(value.name)),
  );

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const httpTool =
  (tool: Tool, name: string): SessionTool =>
  (toolsUrl) => {
    const description = typeof tool.description === "string" ? tool.description.trim().slice(0, MAX_DESCRIPTION) : "";
    return {
      type: "http",
      name,
      description: description === "" ? "A recorded tool; its description was not recorded." : description,
      input_schema: { ...(isObject(tool.input_schema) ? tool.input_schema : {}), type: "object" },
      url: `${toolsUrl}/${name}`,
    };
  };

const sessionTool = (tool: Tool, nameOf: Plan["nameOf"]): SessionTool => {
  const type = typeof tool.type === "string" ? tool.type : "custom";
  if (type === "custom") return httpTool(tool, nameOf(String(tool.name)));
  if (PROVIDER_TOOL.test(type)) return () => tool;
  throw new RecordingError(`it has a tool of the type ${type}, which a session cannot be given`);
};

/** A block of the user as a turn takes it. */
const inputBlock = ({ type, value }: Block): object => {
  switch (type) {
    case "text":
      return { type, text: value.text };
    case "image":
      return { type, source: value.source };
    case "document":
      return { type, source: value.source, ...(typeof value.title === "string" ? { title: value.title } : {}) };
    default:
      throw new RecordingError(`a user message holds a block of the type ${type}, which a turn does not take`);
  }
};

/** A recorded block as the simulator says it. Thinking goes without its signature: the simulator signs for itself. */
const scriptBlock = ({ type, value, text }: Block, nameOf: Plan["nameOf"]): ScriptBlock => {
  switch (type) {
    case "text":
      return { type, text: String(value.text) };
    case "thinking":
      return { type, thinking: String(value.thinking) };
    case "redacted_thinking":
      return { type };
    case "tool_use":
    case "server_tool_use":
      return {
        type,
        id: String(value.id),
        name: nameOf(String(value.name)),
        input_json: memberText(text, "input") ?? "{}",
      };
    case "compaction":
      throw new RecordingError("the provider compacted it, which hango does not ask for");
    default:
      return { ...value, type };
  }
};

/** An HTTP tool answers with text and nothing else. */
const checkResult = ({ name, content }: RecordedResult): void => {
  if (typeof content === "string") return;
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [content];
  const other = blocks.find((block) => !isObject(block) || block.type !== "text");
  if (other === undefined) return;
  const type = isObject(other) ? String(other.type) : typeof other;
  throw new RecordingError(
    `a result of ${name} holds a block of the type ${type}; an HTTP tool can answer with text only`,
  );
};

const holds = (messages: readonly Message[], test: (block: Block) => boolean): boolean =>
  messages.some(({ blocks }) => blocks.some(test));

const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

/**
 * Plans the replay of a recording.
 * @throws RecordingError for what hango cannot be made to replay
 */
export const planReplay = (recording: Recording): Plan => {
  const { turns, unanswered } = splitTurns(recording);
  const messages = turns.flatMap((turn) => turn.messages);
  const declared = recording.tools.map((tool) => String(tool.name));
  const called = [...new Set(callNames(messages))];
  const undeclared = called.filter((name) => !declared.includes(name));
  const nameOf = renamer([...declared, ...undeclared]);
  const renamed = [...declared, ...undeclared].filter((name) => nameOf(name) !== name);
  const tools = [...recording.tools, ...undeclared.map((name) => ({ name }))].map((tool) => sessionTool(tool, nameOf));
  const thinks = holds(messages, ({ type }) => type === "thinking" || type === "redacted_thinking");

  const notes = [
    ...(unanswered === 0 ? [] : [`${plural(unanswered, "message")} at the end, never answered, left out`]),
    ...renamed.map((name) => `tool ${name} renamed to ${nameOf(name)}: hango has one of that name itself`),
    ...(thinks ? ["thinking is signed anew by the simulator"] : []),
    ...(holds(messages, ({ value }) => Array.isArray(value.citations)) ? ["citations left out"] : []),
  ];
  return {
    session: (toolsUrl) => ({
      model: MODEL,
      max_tokens: MAX_TOKENS,
      ...(recording.system === "" ? {} : { system: recording.system }),
      ...(thinks ? { thinking: { type: "adaptive" } } : {}),
      tools: tools.map((tool) => tool(toolsUrl)),
    }),
    turns: turns.map((turn) => {
      turn.results.forEach(checkResult);
      return {
        input: turn.messages[0].blocks.map(inputBlock),
        script: answersOf(turn).map(({ blocks }) => ({
          match: { purpose: "turn" },
          reply: { content: blocks.map((block) => scriptBlock(block, nameOf)) },
        })),
        messages: turn.messages,
        results: turn.results,
      };
    }),
    nameOf,
    notes,
  };
};
