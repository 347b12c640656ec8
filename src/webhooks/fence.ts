/**
 * Data of a sender inside of a message to the model (R7): between backticks that it cannot close, so that it never passes for the words
 * of whoever wrote the prompt.
 */

/** Longest value that is shown within a line, in characters; a longer one gets lines of its own. */
const MAX_INLINE_CHARS = 200;

/** A run of backticks longer than the longest in the text, and at least so long. */
const fenceFor = (text: string, atLeast: number): string => {
  let longest = atLeast - 1;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return "`".repeat(longest + 1);
};

/** A value between backticks: within the line where it is short and of one line, in lines of its own else. */
export const fencedValue = (text: string): string => {
  if (text === "") return "(empty)";
  if (text.length > MAX_INLINE_CHARS || /[\p{Cc}\u2028\u2029]/u.test(text)) {
    const fence = fenceFor(text, 3);
    return `\n${fence}\n${text}\n${fence}\n`;
  }
  const fence = fenceFor(text, 1);
  const pad = text.startsWith("`") || text.endsWith("`") ? " " : "";
  return `${fence}${pad}${text}${pad}${fence}`;
};
