/** What an answer says, without what else it holds. */
import { arrayElements } from "../protocol/json-text.ts";
import type { LogRow } from "../protocol/messages.ts";

/** The text of an answer, as its run shows it. */
export const textOf = (row: Pick<LogRow, "content"> | undefined): string =>
  row === undefined
    ? ""
    : arrayElements(row.content)
        .map(({ start, end }): { type?: unknown; text?: unknown } => JSON.parse(row.content.slice(start, end)))
        .flatMap(({ type, text }) => (type === "text" && typeof text === "string" ? [text] : []))
        .join("");
