/** What the model is shown of its memory: whole files in their order as far as there is room, and of the rest its names. Pure. */
import { type FoundMemory, MEMORY_DIRECTORY, type MemoryFile, type MemoryReads } from "../files/memories.ts";
import { formatCount, formatSize, headOf, plural } from "../files/text-cut.ts";

/** Most tokens of a memory and of one of its files: it is part of every request. */
const MEMORY_TOKENS = 16_000;
const FILE_TOKENS = 8_000;
/** Fixed budgets are at most this part of the window (context.md, "Window"): so memory never fills one. */
const SHARE_OF_WINDOW = 0.05;

/** Kept for naming what was left out, where there is more than one file. */
const NOTES_SHARE = 1 / 8;
const LEAST_NOTES_TOKENS = 64;

/** What parts two files. */
const JOIN_TOKENS = 2;

/** A cut file shows at least so much, or nothing. */
const LEAST_CUT_TOKENS = 64;

/** More bytes than any text has for a token, but for runs of blanks, of which a part will do. */
const BYTES_PER_TOKEN = 8;

export interface MemoryBudget {
  readonly totalTokens: number;
  readonly fileTokens: number;
  readonly reads: MemoryReads;
}

/** The room that a window leaves for memory. */
export const memoryBudget = (windowTokens: number): MemoryBudget => {
  const share = Math.floor(SHARE_OF_WINDOW * windowTokens);
  const totalTokens = Math.min(MEMORY_TOKENS, share);
  const fileTokens = Math.min(FILE_TOKENS, share);
  const reads = { fileBytes: BYTES_PER_TOKEN * fileTokens, totalBytes: BYTES_PER_TOKEN * totalTokens };
  return { totalTokens, fileTokens, reads };
};

/** Tokens of a text. Must not shrink when text is appended. */
type Estimate = (text: string) => number;

const readCall = (path: string, offset?: number): string =>
  `read_file ${JSON.stringify({ file_path: path, ...(offset === undefined ? {} : { offset }) })}`;

const section = (path: string, text: string): string => `<memory path=${JSON.stringify(path)}>\n${text}\n</memory>`;

/** The greatest of the numbers from 0 to `most` that fits; what fits also fits when it is less. */
const greatest = (most: number, fits: (candidate: number) => boolean): number => {
  let low = 0;
  let high = most;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
};

/** The beginning of a file, its last line whole unless it is the first, with the way to read on; undefined where too little fits. */
const cutSection = (file: MemoryFile, text: string, room: number, estimate: Estimate): string | undefined => {
  const ending = (line: number): string =>
    `[Cut here: the file has ${formatCount(file.sizeBytes)} bytes. To read on: ${readCall(file.path, line)}]`;
  const lines = text.split("\n");
  const upTo = (count: number): string =>
    section(file.path, `${lines.slice(0, count).join("\n")}\n${ending(count + 1)}`);
  // The last line may itself have been cut by the read, so it is never shown as whole.
  const whole = greatest(lines.length - 1, (count) => estimate(upTo(count)) <= room);
  if (whole > 0) return upTo(whole);
  const line = lines[0] ?? "";
  const part = (length: number): string => section(file.path, `${headOf(line, length)}\n${ending(1)}`);
  const length = greatest(line.length, (count) => estimate(part(count)) <= room);
  return length > 0 && estimate(headOf(line, length)) >= LEAST_CUT_TOKENS ? part(length) : undefined;
};

/** A file as it is shown; undefined where it is only named. */
const sectionOf = (file: MemoryFile, room: number, estimate: Estimate): string | undefined => {
  if (file.content.kind !== "text") return undefined;
  const { complete } = file.content;
  const text = file.content.text.trimEnd();
  const whole = section(file.path, text);
  if (complete && estimate(whole) <= room) return whole;
  return room < LEAST_CUT_TOKENS ? undefined : cutSection(file, text, room, estimate);
};

const noteOf = ({ path, sizeBytes, content }: MemoryFile): string =>
  content.kind === "binary"
    ? `- ${path} (${formatSize(sizeBytes)}): not UTF-8 text`
    : `- ${path} (${formatSize(sizeBytes)}): ${readCall(path)}`;

/** The names of what is not shown, as many as there is room for; how many more there are, in any case. */
const notesOf = (left: readonly MemoryFile[], more: boolean, room: number, estimate: Estimate): string => {
  if (left.length === 0 && !more) return "";
  const upTo = (count: number): string => {
    const rest = left.length - count;
    const beyond =
      rest === 0 && !more
        ? []
        : [
            `- ${more ? `${rest === 0 ? "" : `${formatCount(rest)} and `}more` : plural(rest, "further file")}: ls ${JSON.stringify({ path: MEMORY_DIRECTORY })}`,
          ];
    return ["In your memory, but not shown here:", ...left.slice(0, count).map(noteOf), ...beyond].join("\n");
  };
  return upTo(greatest(left.length, (count) => estimate(upTo(count)) <= room));
};

/**
 * Lays a memory out. Same files and budget, same text (V8).
 * @param estimate tokens as the session's model counts them
 * @returns at most `totalTokens` (or the one line that says where memory is, in a window too small for any); empty for no memory
 */
export const memoryText = ({ files, more }: FoundMemory, budget: MemoryBudget, estimate: Estimate): string => {
  const { totalTokens, fileTokens } = budget;
  const forNotes = files.length > 1 || more ? Math.max(LEAST_NOTES_TOKENS, Math.floor(NOTES_SHARE * totalTokens)) : 0;
  const shown: string[] = [];
  const left: MemoryFile[] = [];
  let used = 0;
  for (const file of files) {
    const room = Math.min(fileTokens, totalTokens - forNotes - used - JOIN_TOKENS);
    const text = sectionOf(file, room, estimate);
    if (text === undefined) left.push(file);
    else {
      shown.push(text);
      used = estimate(shown.join("\n\n"));
    }
  }
  const notes = notesOf(left, more, Math.max(LEAST_NOTES_TOKENS, totalTokens - used - JOIN_TOKENS), estimate);
  return [...shown, ...(notes === "" ? [] : [notes])].join("\n\n");
};
