/**
 * The history of a session as Markdown: what is written to `/conversation_history/{session_id}.md` (M1). Pure.
 *
 * A section begins with the range, the times, the tools and an index with a line per message; then follow the messages, each under a line
 * `## #{seq} {role}, origin {origin}, {time}`. What a message says stands between fences that it cannot close, in full: tool inputs as the JSON
 * that is stored, their escaped strings once more as they read. Media are named by type, size and place; signatures are left out.
 */
import type { LogRow } from "../protocol/messages.ts";
import type { SectionKey } from "./filesystem.ts";
import { type BlockContext, renderBlocks } from "./history-blocks.ts";
import { inLine } from "./history-fence.ts";
import { headOf, plural } from "./text-cut.ts";

export interface HistoryRow extends LogRow {
  /** RFC 3339. */
  readonly createdAt: string;
}

/** A row as it stands in a section. */
export interface RenderedRow {
  readonly seq: number;
  readonly createdAt: string;
  /** Ends in a newline. */
  readonly markdown: string;
  /** The row's line in the index. */
  readonly indexLine: string;
  /** The tools that it calls. */
  readonly calls: readonly string[];
}

/** Most characters of an index line, so that an index is a small part of its section. */
const INDEX_LINE_CHARS = 120;
/** Most tools that a section's beginning names. */
const MAX_TOOLS = 30;
const TOOL_NAME_CHARS = 100;
const REFERENCE_BYTES = "hango:media/sha256-".length + 64;

const oneLine = (text: string, chars: number): string => {
  const line = text.replace(/[\s\p{Cc}\u2028\u2029]+/gu, " ").trim();
  return line.length <= chars ? line : `${headOf(line, chars - 3)}...`;
};

/** The size of the only payload that the row refers to, from the row's size as sent; undefined for several. */
const mediaSizeBytes = ({ content, media, bytes }: HistoryRow): number | undefined => {
  if (media.length !== 1) return undefined;
  const references = content.split(`hango:media/sha256-${media[0]}`).length - 1;
  const takenOut = bytes - new TextEncoder().encode(content).length;
  if (references === 0 || takenOut <= 0) return undefined;
  return Math.floor(((takenOut / references + REFERENCE_BYTES) * 3) / 4);
};

/** @param toolNames names of calls by id, known from earlier rows; those of this row are added */
export const renderRow = (row: HistoryRow, toolNames: Map<string, string>): RenderedRow => {
  const { seq, role, origin, createdAt } = row;
  const context: BlockContext = { seq, toolNames, mediaSizeBytes: mediaSizeBytes(row), depth: 0 };
  const blocks = renderBlocks(row.content, context);
  const words = blocks.map((block) => block.words).join(" ");
  return {
    seq,
    createdAt,
    markdown: `\n## #${seq} ${role}, origin ${origin}, ${createdAt}\n\n${blocks.map(({ markdown }) => markdown).join("\n")}`,
    indexLine: oneLine(`- #${seq} ${origin}: ${words}`, INDEX_LINE_CHARS),
    calls: blocks.flatMap(({ calls }) => (calls === undefined ? [] : [calls])),
  };
};

const toolsLine = (rows: readonly RenderedRow[]): string => {
  const counts = new Map<string, number>();
  for (const name of rows.flatMap(({ calls }) => calls)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const all = [...counts].sort(([, a], [, b]) => b - a);
  const named = all.slice(0, MAX_TOOLS).map(([name, count]) => `${inLine(headOf(name, TOOL_NAME_CHARS))} (${count})`);
  const more = all.length > MAX_TOOLS ? [`and ${plural(all.length - MAX_TOOLS, "other")}`] : [];
  return all.length === 0 ? "none" : [...named, ...more].join(", ");
};

/** What a section says before its messages. Under 8 KB but for the index. @param rows not empty */
export const renderHead = ({ first, last }: SectionKey, rows: readonly RenderedRow[]): string =>
  [
    `# Messages ${first} to ${last}`,
    "",
    `- Number: ${plural(rows.length, "message")}`,
    `- Time: ${rows[0]?.createdAt} to ${rows.at(-1)?.createdAt}`,
    `- Tools called: ${toolsLine(rows)}`,
    `- A message begins at its heading: search for "## #${rows[0]?.seq} " to find message ${rows[0]?.seq}. What it says is between fences, in full.`,
    "",
    "## Index",
    "",
    ...rows.map(({ indexLine }) => indexLine),
    "",
  ].join("\n");

/**
 * Rows of the log as one section.
 * @param range what the section says that it covers; the rows' own by default
 */
export const renderHistory = (rows: readonly HistoryRow[], range?: SectionKey): string => {
  const toolNames = new Map<string, string>();
  const rendered = rows.map((row) => renderRow(row, toolNames));
  const [first, last] = [rendered[0], rendered.at(-1)];
  if (first === undefined || last === undefined) return "";
  return (
    renderHead(range ?? { first: first.seq, last: last.seq }, rendered) +
    rendered.map(({ markdown }) => markdown).join("")
  );
};
