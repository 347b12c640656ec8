/** Whether the log that hango kept is the conversation that was recorded. */
import { isDeepStrictEqual } from "node:util";
import { type Block, type Message, memberText } from "./recording.ts";

/** What an empty result is stored as: the Messages API refuses an empty one. */
const NO_OUTPUT = "(no output)";

/** Where results lie that were too large for the log. */
const OFFLOADED = /\/large_tool_results\/[A-Za-z0-9_-]+/;

/** Neighbours of one role are one message of the Messages API. */
const merged = (messages: readonly Message[]): readonly Message[] => {
  const joined: Message[] = [];
  for (const message of messages) {
    const last = joined.at(-1);
    if (last?.role === message.role)
      joined[joined.length - 1] = { role: last.role, blocks: [...last.blocks, ...message.blocks] };
    else joined.push(message);
  }
  return joined;
};

const resultText = (content: unknown): string => {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((block: { readonly text?: unknown }) => String(block.text)).join("\n");
};

/** A recorded result's content as hango is to store it. */
const storedContent = (content: unknown): unknown => {
  if (!Array.isArray(content)) return resultText(content).trim() === "" ? NO_OUTPUT : content;
  const kept = content.filter((block: { readonly text?: unknown }) => String(block.text).trim() !== "");
  return kept.length === 0 ? NO_OUTPUT : kept;
};

export interface VerifyOptions {
  /** What was replayed. */
  readonly expected: readonly Message[];
  /** The log. */
  readonly actual: readonly Message[];
  readonly nameOf: (recorded: string) => string;
  /** A file of the session as text; undefined where there is none. */
  readonly readFile: (path: string) => Promise<string | undefined>;
}

export interface Verdict {
  /** One line for each thing that differs. */
  readonly differences: readonly string[];
  /** Results that were found in files, in the same words. */
  readonly offloaded: number;
}

/** What a block says beyond its content of the recording is hango's own, and not compared. */
const sameBlock = (wanted: Block, found: Block, nameOf: VerifyOptions["nameOf"]): boolean => {
  if (wanted.type !== found.type) return false;
  const [a, b] = [wanted.value, found.value];
  switch (wanted.type) {
    case "text":
      return a.text === b.text;
    case "thinking":
      return a.thinking === b.thinking && typeof b.signature === "string" && b.signature !== "";
    case "redacted_thinking":
      return typeof b.data === "string" && b.data !== "";
    case "tool_use":
    case "server_tool_use":
      return (
        a.id === b.id &&
        b.name === nameOf(String(a.name)) &&
        memberText(wanted.text, "input") === memberText(found.text, "input")
      );
    case "tool_result":
      return (
        a.tool_use_id === b.tool_use_id &&
        (a.is_error === true) === (b.is_error === true) &&
        isDeepStrictEqual(storedContent(a.content), b.content)
      );
    default:
      return isDeepStrictEqual(a, b);
  }
};

const isOffloaded = async (wanted: Block, found: Block, readFile: VerifyOptions["readFile"]): Promise<boolean> => {
  if (wanted.type !== "tool_result" || found.type !== "tool_result") return false;
  if (wanted.value.tool_use_id !== found.value.tool_use_id) return false;
  const path = OFFLOADED.exec(resultText(found.value.content))?.[0];
  return path !== undefined && (await readFile(path)) === resultText(wanted.value.content);
};

const shown = (block: Block | undefined): string => {
  if (block === undefined) return "nothing";
  return block.text.length > 160 ? `${block.text.slice(0, 160)}...` : block.text;
};

/** Compares the log with what was replayed: roles, blocks, texts, results, and the inputs of calls byte for byte (V9). */
export const verifyLog = async ({ expected, actual, nameOf, readFile }: VerifyOptions): Promise<Verdict> => {
  const [wanted, found] = [merged(expected), merged(actual)];
  const differences: string[] = [];
  let offloaded = 0;
  if (wanted.length !== found.length)
    differences.push(`the log has ${found.length} messages, the recording ${wanted.length}`);
  for (const [at, message] of wanted.entries()) {
    const other = found[at];
    if (other === undefined) break;
    if (other.role !== message.role) {
      differences.push(`message ${at + 1} has the role ${other.role}, recorded was ${message.role}`);
      continue;
    }
    for (let index = 0; index < Math.max(message.blocks.length, other.blocks.length); index++) {
      const [a, b] = [message.blocks[index], other.blocks[index]];
      if (a !== undefined && b !== undefined) {
        if (sameBlock(a, b, nameOf)) continue;
        if (await isOffloaded(a, b, readFile)) {
          offloaded += 1;
          continue;
        }
      }
      differences.push(`message ${at + 1}, block ${index + 1} is ${shown(b)}, recorded was ${shown(a)}`);
    }
  }
  return { differences, offloaded };
};
