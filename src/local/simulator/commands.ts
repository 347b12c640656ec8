/** Plain commands, one a line, and the tool calls they mean. */
import type { Json, JsonObject } from "./json.ts";
import { isObject } from "./json.ts";

export interface Command {
  /** Name of the tool that does it. */
  readonly tool: string;
  /** What each argument is for, by the names that a tool may give it; the first is the one hango's tools use. */
  readonly args: readonly (readonly [names: readonly string[], value: unknown])[];
}

const FILE = ["file_path", "path"];
const FOLDER = ["path", "directory"];

const bare = (path: string): string => path.replace(/[.,;!?"'`]+$/, "");

const todos = (list: string) =>
  list
    .split(/[;,]/)
    .map((content) => content.trim())
    .filter((content) => content !== "")
    .map((content) => ({ content, status: "pending" }));

/** `{"city": "Oslo"}` as arguments of any tool; none where it is no JSON. */
const argumentsIn = (json: string): Command["args"] => {
  try {
    const parsed: Json = JSON.parse(json);
    return isObject(parsed) ? Object.entries(parsed).map(([name, value]) => [[name], value] as const) : [];
  } catch {
    return [];
  }
};

type Reader = readonly [pattern: RegExp, read: (groups: readonly string[]) => Command];

const READERS: readonly Reader[] = [
  [/^(?:read|show|open|cat)\s+(\/\S+)$/i, ([path = ""]) => ({ tool: "read_file", args: [[FILE, bare(path)]] })],
  [
    /^write\s+(\/\S+?):\s*([\s\S]*)$/i,
    ([path = "", content = ""]) => ({
      tool: "write_file",
      args: [
        [FILE, path],
        [["content"], content],
      ],
    }),
  ],
  [
    /^edit\s+(\/\S+?):?\s+"(.*?)"\s*(?:->|=>|to|with)\s*"(.*)"$/i,
    ([path = "", from = "", to = ""]) => ({
      tool: "edit_file",
      args: [
        [FILE, path],
        [["old_string", "old", "old_text"], from],
        [["new_string", "new", "new_text"], to],
      ],
    }),
  ],
  [/^(?:list|ls)(?:\s+(\/\S*))?$/i, ([path = "/"]) => ({ tool: "ls", args: [[FOLDER, bare(path)]] })],
  [
    /^(?:search|grep)(?:\s+for)?\s+"([^"]+)"(?:\s+in\s+(\/\S*))?$/i,
    ([pattern = "", path]) => ({
      tool: "grep",
      args: [[["pattern", "query"], pattern], ...(path === undefined ? [] : [[FOLDER, bare(path)] as const])],
    }),
  ],
  [/^(?:glob|find)\s+(\S*[*/]\S*)$/i, ([pattern = ""]) => ({ tool: "glob", args: [[["pattern"], pattern]] })],
  [/^(?:delete|remove|rm)\s+(\/\S+)$/i, ([path = ""]) => ({ tool: "delete_file", args: [[FILE, bare(path)]] })],
  [
    /^load\s+(?:the\s+)?skill\s+["'`]?([\w-]+)["'`]?[.!]?$/i,
    ([name = ""]) => ({ tool: "load_skill", args: [[["name"], name]] }),
  ],
  [
    /^delegate(?:\s+to\s+([\w-]+))?:\s*(.+)$/i,
    ([type = "general-purpose", prompt = ""]) => ({
      tool: "task",
      args: [
        [["description"], prompt.slice(0, 60).toWellFormed()],
        [["prompt"], prompt],
        [["subagent_type"], type],
      ],
    }),
  ],
  [/^call\s+([\w-]{1,64})\s+(\{.*\})$/i, ([tool = "", json = ""]) => ({ tool, args: argumentsIn(json) })],
  [/^todos?:?\s+(.+)$/i, ([list = ""]) => ({ tool: "write_todos", args: [[["todos"], todos(list)]] })],
];

const readCommand = (text: string): Command | undefined => {
  const plain = text.trim().replace(/^please\s+/i, "");
  for (const [pattern, read] of READERS) {
    const found = pattern.exec(plain);
    if (found !== null) return read(found.slice(1));
  }
  return undefined;
};

/** A line's commands; "and then" joins two only where both sides are commands. */
const readLine = (line: string): readonly Command[] => {
  const parts = line.split(/\s+and then\s+/i).map(readCommand);
  const all = parts.filter((part) => part !== undefined);
  if (all.length === parts.length) return all;
  const whole = readCommand(line);
  return whole === undefined ? [] : [whole];
};

const REMEMBER = /^\s*(?:please\s+)?remember:\s*(.*\S)\s*$/i;

/** Where hango keeps what is to be remembered. */
export const MEMORY_FILE = "/memories/AGENTS.md";

/** `remember: text`, all of them in one write: each is a line more of the memory that the agent knows from its instructions. */
const remembering = (lines: readonly string[], memory: string): Command => {
  const added = lines.flatMap((line) => REMEMBER.exec(line)?.slice(1) ?? []).map((text) => `- ${text}`);
  return {
    tool: "write_file",
    args: [
      [FILE, MEMORY_FILE],
      [["content"], [...(memory === "" ? [] : [memory]), ...added].join("\n")],
    ],
  };
};

/**
 * The commands in a text. `write /a.md:` with nothing after it takes the lines that follow.
 * @param memory what the agent's memory says so far; empty for nothing
 */
export const readCommands = (text: string, memory: string): readonly Command[] => {
  const lines = text.split("\n");
  const commands: Command[] = [];
  const firstRemembered = lines.findIndex((line) => REMEMBER.test(line));
  for (const [index, line] of lines.entries()) {
    if (REMEMBER.test(line)) {
      if (index === firstRemembered) commands.push(remembering(lines, memory));
      continue;
    }
    if (/^\s*(?:please\s+)?write\s+\/\S+:\s*$/i.test(line)) {
      const whole = readCommand(lines.slice(index).join("\n"));
      return whole === undefined ? commands : [...commands, whole];
    }
    commands.push(...readLine(line));
  }
  return commands;
};

/** The tool's input, its arguments named as the offered tool's schema names them. */
export const inputFor = (command: Command, tool: JsonObject): Readonly<Record<string, unknown>> => {
  const schema = isObject(tool.input_schema) ? tool.input_schema : {};
  const properties = isObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(
    command.args.map(([names, value]) => [names.find((name) => name in properties) ?? names[0] ?? "value", value]),
  );
};
