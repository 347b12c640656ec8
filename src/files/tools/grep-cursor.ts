/** The text by which a `grep` goes on where the last one stopped. */
import { type FilePath, parsePath } from "../path.ts";
import type { Position } from "../search.ts";

export type Cursor = { readonly kind: "after"; readonly path: FilePath } | ({ readonly kind: "at" } & Position);

export const formatCursor = (cursor: Cursor): string =>
  cursor.kind === "after"
    ? `after ${cursor.path}`
    : `at ${cursor.unitStartBytes} ${cursor.offsetBytes} ${cursor.newlines} ${cursor.path}`;

/** @returns undefined for text that is no cursor */
export const parseCursor = (text: string): Cursor | undefined => {
  const match = /^(?:after|at (\d{1,15}) (\d{1,15}) (\d{1,15})) (.+)$/.exec(text);
  const parsed = parsePath(match?.[4] ?? "");
  if (match === null || !parsed.ok) return undefined;
  const { path } = parsed;
  if (match[1] === undefined) return { kind: "after", path };
  return {
    kind: "at",
    path,
    unitStartBytes: Number(match[1]),
    offsetBytes: Number(match[2]),
    newlines: Number(match[3]),
  };
};
