/** Recorded sessions: a small sample that is always here, and the whole collection where it lies beside the checkout. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

export interface RecordedMessage {
  /** The line as it stands in the file: `{"role", "content"}`. */
  readonly line: string;
  readonly role: string;
  /** The exact text of the content. */
  readonly content: string;
}

export interface RecordedSession {
  readonly name: string;
  readonly messages: readonly RecordedMessage[];
}

const SAMPLE = join(import.meta.dirname, "../fixtures/sessions");
const COLLECTION = join(import.meta.dirname, "../../../shared/data/sessions");

const HEAD = /^\{"role": ?"(user|assistant)", ?"content": ?/;

const readMessage = (line: string): RecordedMessage => {
  const [head, role] = HEAD.exec(line) ?? [];
  if (head === undefined || role === undefined) throw new Error(`not a message: ${line.slice(0, 60)}`);
  return { line, role, content: line.slice(head.length, -1) };
};

const readSession = (path: string): RecordedSession => ({
  name: basename(path, ".jsonl"),
  messages: readFileSync(path, "utf8")
    .split("\n")
    .slice(1)
    .filter((line) => line !== "")
    .map(readMessage),
});

const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".jsonl"))
    .sort()
    .map((name) => join(folder, name));

/** The sample of `test/fixtures/sessions`. */
export const sampleSessions = (): readonly RecordedSession[] => filesIn(SAMPLE).map(readSession);

/** The collection where it exists, else the sample. */
export const recordedSessions = (): readonly RecordedSession[] =>
  existsSync(COLLECTION) ? filesIn(COLLECTION).map(readSession) : sampleSessions();

const MAX_PAGE_CHARS = 1024 * 1024;

/** A session as bodies of imports, in pages of about a million characters. */
export const pagesOf = (session: RecordedSession): readonly string[] => {
  const pages: string[][] = [[]];
  let chars = 0;
  for (const { line } of session.messages) {
    if (chars > 0 && chars + line.length > MAX_PAGE_CHARS) {
      pages.push([]);
      chars = 0;
    }
    pages.at(-1)?.push(line);
    chars += line.length;
  }
  return pages.map((lines) => `{"messages":[${lines.join(",")}]}`);
};
