/** Recorded sessions as rows of a log, for measurements that need no server. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type MessageId, type Seq, seq } from "../../protocol/ids.ts";
import type { LogRow, Origin, Role } from "../../protocol/messages.ts";

const SAMPLE = join(import.meta.dirname, "../../../test/fixtures/recall");
const COLLECTION = join(import.meta.dirname, "../../../../shared/data");

/** The collection beside the checkout where it exists, else the sample in the fixtures. Both have `sessions/` and `recall/`. */
export const dataFolder = (): string => (existsSync(COLLECTION) ? COLLECTION : SAMPLE);
export const sampleFolder = SAMPLE;

interface RecordedLine {
  readonly role: Role;
  readonly content: readonly { readonly type: string }[];
}

const originOf = ({ role, content }: RecordedLine): Origin => {
  if (role === "assistant") return "assistant";
  return content.some(({ type }) => type === "tool_result") ? "tool" : "user";
};

export const rowOf = (at: Seq, origin: Origin, content: string): LogRow => ({
  id: `msg_${at}` as MessageId,
  seq: at,
  role: origin === "assistant" ? "assistant" : "user",
  origin,
  content,
  media: [],
  calls: [],
  tokens: 0,
  bytes: content.length,
  runId: null,
});

/** The messages of a session's file; its first line says where it comes from. */
export const readRows = (folder: string, session: string): readonly LogRow[] =>
  readFileSync(join(folder, "sessions", `${session}.jsonl`), "utf8")
    .trim()
    .split("\n")
    .slice(1)
    .map((line, at) => {
      const message: RecordedLine = JSON.parse(line);
      return rowOf(seq(at + 1), originOf(message), JSON.stringify(message.content));
    });

export const sessionNames = (folder: string): readonly string[] =>
  readdirSync(join(folder, "sessions"))
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => basename(name, ".jsonl"))
    .sort();
