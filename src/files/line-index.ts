/** Where lines start in a file, roughly: kept with each object so that a read of line N costs about N's neighbourhood. */

/** A known line start: the line after `newlines` newlines begins at `offsetBytes`. */
export interface LineMark {
  readonly newlines: number;
  readonly offsetBytes: number;
}

export interface LineIndex {
  readonly newlines: number;
  /** False also for an empty file. */
  readonly endsWithNewline: boolean;
  /** Ascending; the first is the start of the file. */
  readonly marks: readonly LineMark[];
}

/** Keeps the stored index near 1 KB: an R2 object has 8 KB for all its metadata (platform.md). */
const MAX_MARKS = 64;
/** A read of a chunk this size is cheap anyway. */
const MIN_MARK_DISTANCE_BYTES = 65_536;
const NEWLINE = 0x0a;

export const indexLines = (bytes: Uint8Array): LineIndex => {
  const distanceBytes = Math.max(MIN_MARK_DISTANCE_BYTES, Math.ceil(bytes.length / MAX_MARKS));
  const marks: LineMark[] = [{ newlines: 0, offsetBytes: 0 }];
  let newlines = 0;
  let nextMarkBytes = distanceBytes;
  for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) {
    newlines++;
    if (at + 1 < nextMarkBytes || at + 1 >= bytes.length) continue;
    marks.push({ newlines, offsetBytes: at + 1 });
    nextMarkBytes = at + 1 + distanceBytes;
  }
  return { newlines, endsWithNewline: bytes.at(-1) === NEWLINE, marks };
};

/** Lines as a person counts them: a last line without a newline counts too. */
export const countLines = (index: LineIndex, sizeBytes: number): number =>
  index.newlines + (sizeBytes > 0 && !index.endsWithNewline ? 1 : 0);

/** The last mark at or before a line. @param line 1 for the first */
export const markBefore = (index: LineIndex, line: number): LineMark =>
  index.marks.findLast((mark) => mark.newlines < line) ?? { newlines: 0, offsetBytes: 0 };

/** The first mark at or after a line: where a search for its start ends; undefined if the file's end is nearer. @param line as above */
export const markAfter = (index: LineIndex, line: number): LineMark | undefined =>
  index.marks.find((mark) => mark.newlines >= line - 1);

/** The index of pieces shown as one file. */
export const joinIndexes = (
  pieces: readonly { readonly sizeBytes: number; readonly lines: LineIndex }[],
): LineIndex => {
  const marks: LineMark[] = [{ newlines: 0, offsetBytes: 0 }];
  let newlines = 0;
  let offsetBytes = 0;
  let endsWithNewline = false;
  for (const { sizeBytes, lines } of pieces) {
    for (const mark of lines.marks) {
      // A piece's own start begins a line only if the piece before it ended one.
      const startsLine = mark.offsetBytes > 0 || endsWithNewline;
      if (startsLine) marks.push({ newlines: newlines + mark.newlines, offsetBytes: offsetBytes + mark.offsetBytes });
    }
    newlines += lines.newlines;
    offsetBytes += sizeBytes;
    if (sizeBytes > 0) endsWithNewline = lines.endsWithNewline;
  }
  return { newlines, endsWithNewline, marks };
};

/** One short line of text, for an object's metadata. */
export const formatIndex = ({ newlines, endsWithNewline, marks }: LineIndex): string =>
  [newlines, endsWithNewline ? 1 : 0, ...marks.slice(1).map((mark) => `${mark.newlines}:${mark.offsetBytes}`)].join(
    " ",
  );

/** The index in a metadata text, or undefined where there is none (an object that hango did not write). */
export const parseIndex = (text: string | undefined): LineIndex | undefined => {
  const match = /^(\d+) ([01])((?: \d+:\d+)*)$/.exec(text ?? "");
  if (match === null) return undefined;
  const marks = [...(match[3] ?? "").matchAll(/(\d+):(\d+)/g)].map(([, newlines, offsetBytes]) => ({
    newlines: Number(newlines),
    offsetBytes: Number(offsetBytes),
  }));
  return {
    newlines: Number(match[1]),
    endsWithNewline: match[2] === "1",
    marks: [{ newlines: 0, offsetBytes: 0 }, ...marks],
  };
};
