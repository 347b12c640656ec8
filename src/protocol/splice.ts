/** Replacing parts of a text by place, so that every other byte stays (V9). */
import type { Span } from "./json-text.ts";

/** A part of a text and what takes its place. */
export interface Edit extends Span {
  readonly by: string;
}

/** The text with its parts replaced. Edits are disjoint and in order. */
export const splice = (text: string, edits: readonly Edit[]): string => {
  if (edits.length === 0) return text;
  const pieces: string[] = [];
  let copied = 0;
  for (const { start, end, by } of edits) {
    pieces.push(text.slice(copied, start), by);
    copied = end;
  }
  pieces.push(text.slice(copied));
  return pieces.join("");
};
