/**
 * Text of others inside Markdown: put between fences that it cannot close, so that no message can pass for a heading of the history.
 *
 * Verbatim: what stands between the fences, less the one line break before the closing fence, is the text. Text with NUL is shown as
 * the JSON string that it is, since a file with NUL is no text file.
 */
import { escapedLeaves } from "./json-leaves.ts";

/** A backtick longer than the longest run inside, three at least. */
const fenceFor = (text: string): string => {
  let longest = 2;
  for (const [run] of text.matchAll(/`{3,}/g)) longest = Math.max(longest, run.length);
  return "`".repeat(longest + 1);
};

/** @param language what is said after the opening fence */
export const fenced = (text: string, language = "text"): string => {
  if (text.includes("\0") && language === "text") return fenced(JSON.stringify(text), "json");
  const fence = fenceFor(text);
  return `${fence}${language}\n${text}\n${fence}\n`;
};

/** JSON as stored, and after it, readable, the strings that are spelled with escapes: those of one line together, others each in a fence. */
export const fencedJson = (json: string): string => {
  const leaves = escapedLeaves(json).filter(({ text }) => !text.includes("\0"));
  const isLong = (text: string): boolean => /[\n\r]/.test(text);
  const short = leaves.filter(({ text }) => !isLong(text)).map(({ path, text }) => `${path}: ${text}`);
  return [
    fenced(json, "json"),
    ...(short.length === 0 ? [] : [`The same, strings unescaped:\n${fenced(short.join("\n"))}`]),
    ...leaves.filter(({ text }) => isLong(text)).map(({ path, text }) => `The same, ${path}:\n${fenced(text)}`),
  ].join("");
};

/** A name or an id within a line of ours: as it is, or as a JSON string where it could break the line. */
export const inLine = (text: string): string =>
  /[\p{Cc}\u2028\u2029]/u.test(text) ? JSON.stringify(text).replace(/[\p{Cc}\u2028\u2029]/gu, " ") : text;
