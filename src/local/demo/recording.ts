/**
 * A recorded session: line 1 says what it is, then one message of the Messages API a line. Blocks keep their text, because what is
 * replayed must come out in the same bytes (V9).
 */
import { z } from "zod";
import { arrayElements, objectMembers } from "../../protocol/json-text.ts";

/** The recording cannot be read, or cannot be replayed. The message is for the person who chose it. */
export class RecordingError extends Error {
  override readonly name = "RecordingError";
}

export interface Block {
  readonly type: string;
  /** The block parsed; for looking, not for sending. */
  readonly value: Readonly<Record<string, unknown>>;
  /** The block's JSON text. */
  readonly text: string;
}

export interface Message {
  readonly role: "user" | "assistant";
  readonly blocks: readonly Block[];
}

export interface Recording {
  readonly id: string;
  readonly licence: string;
  readonly copyright: string;
  /** "" for none. */
  readonly system: string;
  /** Tools as the Messages API takes them. */
  readonly tools: readonly Readonly<Record<string, unknown>>[];
  readonly messages: readonly Message[];
}

const meta = z.looseObject({
  type: z.literal("meta"),
  id: z.string(),
  licence: z.string().default("unknown"),
  copyright: z.string().default("unknown"),
  system: z.string().nullish(),
  tools: z.array(z.record(z.string(), z.unknown())).nullish(),
});

const block = z.looseObject({ type: z.string() });
const role = z.enum(["user", "assistant"]);

const parseJson = (line: string, number: number): unknown => {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new RecordingError(`line ${number} is not JSON: ${error instanceof Error ? error.message : "unknown"}`);
  }
};

/** The JSON text of an object's member; undefined where there is none. */
export const memberText = (object: string, key: string): string | undefined => {
  const found = objectMembers(object).findLast((member) => member.key === key);
  return found === undefined ? undefined : object.slice(found.start, found.end);
};

/**
 * The blocks of a content text, whose short form is a string.
 * @throws RecordingError when it is neither blocks nor text
 */
export const readBlocks = (content: string, where: string): readonly Block[] => {
  if (content.startsWith('"')) return readBlocks(`[{"type":"text","text":${content}}]`, where);
  if (!content.startsWith("[")) throw new RecordingError(`${where} has no content`);
  return arrayElements(content).map(({ start, end }) => {
    const text = content.slice(start, end);
    const value = block.safeParse(JSON.parse(text));
    if (!value.success) throw new RecordingError(`${where} has a content block without a type`);
    return { type: value.data.type, value: value.data, text };
  });
};

const readMessage = (line: string, number: number): Message => {
  const parsed = z.looseObject({ role }).safeParse(parseJson(line, number));
  if (!parsed.success) throw new RecordingError(`line ${number} is not a message of a user or an assistant`);
  return { role: parsed.data.role, blocks: readBlocks(memberText(line, "content") ?? "", `line ${number}`) };
};

/**
 * Reads a recording.
 * @param text the file: JSON lines
 * @throws RecordingError naming the line
 */
export const parseRecording = (text: string): Recording => {
  const lines = text
    .split("\n")
    .map((line, index) => ({ line: line.trim(), number: index + 1 }))
    .filter(({ line }) => line !== "");
  const [first, ...rest] = lines;
  if (first === undefined) throw new RecordingError("the file is empty");
  const read = meta.safeParse(parseJson(first.line, first.number));
  if (!read.success) {
    throw new RecordingError(
      `line ${first.number} is not the meta line of a recording ({"type": "meta", "id": ..., "system": ..., "tools": [...]})`,
    );
  }
  const { id, licence, copyright, system, tools } = read.data;
  return {
    id,
    licence,
    copyright,
    system: system ?? "",
    tools: tools ?? [],
    messages: rest.map(({ line, number }) => readMessage(line, number)),
  };
};
