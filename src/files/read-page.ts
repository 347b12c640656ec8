/** A page of numbered lines out of a text file, reading about as much as it shows. */
import { besideSecret } from "../protocol/redact.ts";
import type { FileStat, FileSystem } from "./filesystem.ts";
import { countLines, markAfter, markBefore } from "./line-index.ts";
import { headOf } from "./text-cut.ts";

/** A place in a file: a line (1 for the first) and a byte within it (1 for the first). */
export interface Place {
  readonly offset: number;
  readonly column: number;
}

export interface PageRequest {
  readonly start: Place;
  readonly maxLines: number;
  /** Of the text with its line numbers. */
  readonly maxChars: number;
  readonly maxTokens: number;
  readonly estimateTokens: (text: string) => number;
}

export interface Page {
  readonly text: string;
  readonly lastLine: number;
  /** Where the next page starts; column only when it is within a line. Undefined at the end of the file. */
  readonly next: { readonly offset: number; readonly column?: number } | undefined;
}

export type PageResult =
  | ({ readonly kind: "page" } & Page)
  /** The file ends before the start. `lines` leaves out a last line without a newline where the file has no index. */
  | { readonly kind: "beyond"; readonly lines: number }
  /** The file was removed or changed between two reads. */
  | { readonly kind: "gone" };

/** Longer lines are shown in parts. */
export const LINE_PART_CHARS = 2_000;
/** Longest secret that such a cut goes around. */
const SECRET_CHARS = 1_000;
/** One read: covers any page, since a character has at most 4 bytes and a page at most about 60,000 characters. */
const WINDOW_BYTES = 262_144;
const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

interface LineStart {
  readonly offsetBytes: number;
  /** Newlines before it; less than asked for when the file ended. */
  readonly newlines: number;
}

/** Where a line starts, counting newlines from the nearest known place. */
const findLine = async (fs: FileSystem, stat: FileStat, line: number): Promise<LineStart | undefined> => {
  const mark = stat.lines === undefined ? { newlines: 0, offsetBytes: 0 } : markBefore(stat.lines, line);
  const endBytes = (stat.lines === undefined ? undefined : markAfter(stat.lines, line))?.offsetBytes ?? stat.sizeBytes;
  let { newlines, offsetBytes } = mark;
  while (newlines < line - 1) {
    // Past the next mark only if the file is not what its index says.
    const lengthBytes = offsetBytes < endBytes ? Math.min(WINDOW_BYTES, endBytes - offsetBytes) : WINDOW_BYTES;
    const read = await fs.read(stat.path, { range: { offsetBytes, lengthBytes } });
    if (read === undefined || read.etag !== stat.etag) return undefined;
    if (read.bytes.length === 0) return { offsetBytes, newlines };
    let at = -1;
    while (newlines < line - 1) {
      const next = read.bytes.indexOf(NEWLINE, at + 1);
      if (next === -1) break;
      newlines++;
      at = next;
    }
    offsetBytes += newlines < line - 1 ? read.bytes.length : at + 1;
  }
  return { offsetBytes, newlines };
};

/** A text in parts of at most `LINE_PART_CHARS`; one empty part for an empty text. */
const partsOf = (text: string): readonly string[] => {
  const parts: string[] = [];
  let rest = text;
  do {
    const whole = headOf(rest, LINE_PART_CHARS);
    // A secret in two parts would be recognised by nothing that reads the page (S6); one that fills a part has to be.
    const { before } = besideSecret(rest, whole.length, SECRET_CHARS);
    const part = before === 0 ? whole : rest.slice(0, before);
    parts.push(part);
    rest = rest.slice(part.length);
  } while (rest !== "");
  return parts;
};

/** Reads a page of lines. Each is `     7\ttext`; the further parts of a long one are `   7.1\ttext`. */
export const readPage = async (fs: FileSystem, stat: FileStat, request: PageRequest): Promise<PageResult> => {
  const { offset, column } = request.start;
  const lineStart = await findLine(fs, stat, offset);
  if (lineStart === undefined) return { kind: "gone" };
  const startBytes = lineStart.offsetBytes + column - 1;
  if (lineStart.newlines < offset - 1 || startBytes >= stat.sizeBytes) {
    return {
      kind: "beyond",
      lines: stat.lines === undefined ? lineStart.newlines : countLines(stat.lines, stat.sizeBytes),
    };
  }
  const read = await fs.read(stat.path, { range: { offsetBytes: startBytes, lengthBytes: WINDOW_BYTES } });
  if (read === undefined || read.etag !== stat.etag) return { kind: "gone" };
  return { kind: "page", ...layOut(read.bytes, startBytes + read.bytes.length >= stat.sizeBytes, request) };
};

/** @param bytes the file from the start of the page on, as far as it was read; @param complete whether that is to its end */
const layOut = (
  bytes: Uint8Array,
  complete: boolean,
  { start, maxLines, maxChars, maxTokens, estimateTokens }: PageRequest,
): Page => {
  const shown: string[] = [];
  let chars = 0;
  let tokens = 0;
  let at = 0;
  // A column in the middle of a character: begin at the next one.
  if (start.column > 1) while (isContinuation(bytes[at])) at++;
  const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  const encoder = new TextEncoder();
  for (let line = start.offset; ; line++) {
    const newline = bytes.indexOf(NEWLINE, at);
    const end = newline === -1 ? bytes.length : newline;
    const textEnd = end > at && newline !== -1 && bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end;
    let column = line === start.offset ? start.column + at : 1;
    for (const [index, part] of partsOf(decoder.decode(bytes.subarray(at, textEnd))).entries()) {
      const label = index === 0 ? String(line) : `${line}.${index}`;
      const numbered = `${label.padStart(6)}\t${part}`;
      const cost = estimateTokens(numbered) + 1;
      if (shown.length > 0 && (chars + numbered.length + 1 > maxChars || tokens + cost > maxTokens)) {
        const next = index === 0 ? { offset: line } : { offset: line, column };
        return { text: shown.join("\n"), lastLine: index === 0 ? line - 1 : line, next };
      }
      shown.push(numbered);
      chars += numbered.length + 1;
      tokens += cost;
      column += encoder.encode(part).length;
    }
    const atEnd = newline === -1 || (complete && newline === bytes.length - 1);
    if (atEnd) {
      // Without a newline the line may go on after what was read.
      const next = complete ? undefined : newline === -1 ? { offset: line, column } : { offset: line + 1 };
      return { text: shown.join("\n"), lastLine: line, next };
    }
    if (line - start.offset + 1 >= maxLines)
      return { text: shown.join("\n"), lastLine: line, next: { offset: line + 1 } };
    at = newline + 1;
  }
};
