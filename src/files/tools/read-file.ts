/** `read_file`: a page of a text file by lines, or an image or PDF as it is. */
import { Buffer } from "node:buffer";
import { z } from "zod";
import { defineTool, type Tool, type ToolResult, toolError } from "../../protocol/tool.ts";
import { type ContentKind, SNIFF_BYTES, sniff } from "../content-type.ts";
import type { FileStat, FileSystem } from "../filesystem.ts";
import { countLines } from "../line-index.ts";
import { parsePath } from "../path.ts";
import { type Page, readPage } from "../read-page.ts";
import { formatCount, formatSize, plural } from "../text-cut.ts";
import { type FileToolOptions, notFound, refusedPath } from "./options.ts";

const DEFAULT_LINES = 2_000;
/** The Messages API's limit for an image; PDFs of this size fit the request budget (V10) too. */
const MAX_MEDIA_BYTES = 5 * 1_048_576;
/** Most characters of a page, so that with its footer it stays under 60,000. */
const MAX_CHARS = 59_000;
const DEFAULT_MAX_TOKENS = 20_000;
/** Kept for the footer. */
const FOOTER_TOKENS = 300;

/** Undefined when the file is gone. */
const kindOf = async (fs: FileSystem, stat: FileStat): Promise<ContentKind | undefined> => {
  // Sections are text by their making, whatever stands in a message that happens to come first.
  if (stat.sectioned === true) return { kind: "text" };
  const beginning = await fs.read(stat.path, { range: { offsetBytes: 0, lengthBytes: SNIFF_BYTES } });
  return beginning === undefined ? undefined : sniff(beginning.bytes);
};

const readMedia = async (
  fs: FileSystem,
  stat: FileStat,
  type: "image" | "document",
  mediaType: string,
): Promise<ToolResult> => {
  if (stat.sizeBytes > MAX_MEDIA_BYTES) {
    return toolError(
      `${stat.path} (${mediaType}) has ${formatSize(stat.sizeBytes)}; up to ${formatSize(MAX_MEDIA_BYTES)} can be shown. It cannot be read as text.`,
    );
  }
  const read = await fs.read(stat.path);
  if (read === undefined) return toolError(await notFound(fs, stat.path));
  const data = Buffer.from(read.bytes).toString("base64");
  return { content: [{ type, source: { type: "base64", media_type: mediaType, data } }] };
};

const footer = (stat: FileStat, first: number, page: Page): string => {
  const total = stat.lines === undefined ? undefined : countLines(stat.lines, stat.sizeBytes);
  const size = `${total === undefined ? "" : `${plural(total, "line")}, `}${formatCount(stat.sizeBytes)} bytes in all`;
  const shown =
    first === page.lastLine
      ? `Line ${formatCount(first)}`
      : `Lines ${formatCount(first)} to ${formatCount(page.lastLine)}`;
  if (page.next === undefined) return `[${shown}, to the end; ${size}.]`;
  return `[${shown}; ${size}. To read on: read_file ${JSON.stringify({ file_path: stat.path, ...page.next })}]`;
};

const inputSchema = z.object({
  file_path: z.string().describe("Absolute path of the file."),
  offset: z.int().min(1).optional().describe("First line to read; 1 is the first of the file. Default: 1."),
  limit: z.int().min(1).optional().describe(`Most lines to read. Default: ${DEFAULT_LINES}.`),
  column: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Byte within the first line to begin at, as an earlier answer gave it; only for lines longer than a page.",
    ),
});

export const readFileTool = (fs: FileSystem, options: FileToolOptions): Tool => {
  const maxTokens = options.maxReadTokens ?? DEFAULT_MAX_TOKENS;
  return defineTool({
    name: "read_file",
    description: `Reads a text file with line numbers: up to ${formatCount(DEFAULT_LINES)} lines from "offset" on and about ${formatCount(maxTokens)} tokens; the end of the answer says how to read on. Lines over 2,000 characters are shown in parts, numbered 7, 7.1, 7.2. Images and PDFs up to 5 MB are shown as such.`,
    input: inputSchema,
    idempotent: true,
    // Pages by itself: its answers never go to a file.
    offload: false,
    run: async ({ file_path: given, offset = 1, limit = DEFAULT_LINES, column = 1 }) => {
      const parsed = parsePath(given);
      if (!parsed.ok) return toolError(refusedPath(given, parsed.reason));
      const stat = await fs.stat(parsed.path);
      if (stat === undefined) return toolError(await notFound(fs, parsed.path));
      if (stat.sizeBytes === 0) return { content: `${stat.path} exists and is empty (0 bytes).` };
      const content = await kindOf(fs, stat);
      if (content === undefined) return toolError(await notFound(fs, stat.path));
      if (content.kind === "image") return readMedia(fs, stat, "image", content.mediaType);
      if (content.kind === "pdf") return readMedia(fs, stat, "document", "application/pdf");
      if (content.kind === "binary") {
        return toolError(
          `${stat.path} is a binary file of ${formatSize(stat.sizeBytes)} (${stat.contentType}) and cannot be shown as text. Only text, images and PDFs can be read.`,
        );
      }
      const page = await readPage(fs, stat, {
        start: { offset, column },
        maxLines: limit,
        maxChars: MAX_CHARS,
        maxTokens: Math.max(1, maxTokens - FOOTER_TOKENS),
        estimateTokens: options.estimateTokens,
      });
      switch (page.kind) {
        case "gone":
          return toolError(`${stat.path} was changed while it was being read. Read it again.`);
        case "beyond":
          return toolError(
            `There is no line ${formatCount(offset)}${column > 1 ? ` with a byte ${formatCount(column)}` : ""} in ${stat.path}: it has ${plural(page.lines, "line")}. Give a smaller offset.`,
          );
        case "page":
          return { content: `${page.text}\n\n${footer(stat, offset, page)}` };
      }
    },
  });
};
