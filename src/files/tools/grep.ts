/** `grep`: finds lines in files, by text or by regular expression. */
import { z } from "zod";
import { defineTool, type Tool, toolError } from "../../protocol/tool.ts";
import type { FileEntry, FileRead, FileSystem } from "../filesystem.ts";
import { compileGlob } from "../glob.ts";
import { type DirectoryPath, type FilePath, parseDirectory, parsePath } from "../path.ts";
import { compileRegex } from "../regex.ts";
import { type Budget, CHUNK_BYTES, type FileSearch, type Query, searchFile } from "../search.ts";
import { formatSize, plural } from "../text-cut.ts";
import { type Cursor, formatCursor, parseCursor } from "./grep-cursor.ts";
import { createReport } from "./grep-report.ts";
import { type FileToolOptions, refusedPath } from "./options.ts";

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 500;
const MAX_CONTEXT = 10;
/** Architecture section 4: 16 MB a call, then a cursor. */
const DEFAULT_SCAN_BYTES = 16 * 1_048_576;
/** Automaton steps a call: about a second of CPU. A plain pattern over 16 MB takes next to none, a hard one all of them. */
const MAX_STEPS = 20_000_000;
/** Files a call, since each is a request to the backend. */
const MAX_FILES = 1_000;
/** Small files read at once; a Worker has six connections. */
const READ_AHEAD = 6;
const PAGE = 1_000;
/** Longer lines are searched by a regular expression only up to here. */
const REGEX_LINE_CHARS = 10_000;

const inputSchema = z.object({
  pattern: z
    .string()
    .min(1)
    .max(1_000)
    .describe("The text to find, within one line; with regex true, a regular expression."),
  path: z.string().optional().describe('The file or directory to search, absolute. Default: the root "/".'),
  glob: z.string().optional().describe('Search only files that match, such as "*.md" or "src/**/*.ts".'),
  regex: z.boolean().optional().describe("Take the pattern as a regular expression. Default: false, taken literally."),
  case_sensitive: z.boolean().optional().describe("Default: true."),
  output_mode: z
    .enum(["files_with_matches", "content", "count"])
    .optional()
    .describe("Paths only (default), the matching lines with their numbers, or the number of matching lines per file."),
  context: z
    .int()
    .min(0)
    .max(MAX_CONTEXT)
    .optional()
    .describe("Lines to show before and after each match, for content. Default: 0."),
  limit: z
    .int()
    .min(1)
    .max(MAX_LIMIT)
    .optional()
    .describe(`Most files (or lines, for content) to answer. Default: ${DEFAULT_LIMIT}.`),
  cursor: z.string().optional().describe("Where to go on, as an earlier answer gave it; repeat the other inputs."),
});
type GrepInput = z.infer<typeof inputSchema>;

interface LineQuery extends Query {
  /** Where in a line the match begins; 0 if unknown. */
  readonly placeOf: (line: string) => number;
  /** Lines that were too long to be searched to their end. */
  readonly longLines: () => number;
}

const literalQuery = (pattern: string, caseSensitive: boolean): LineQuery => {
  const fold = (text: string): string => (caseSensitive ? text : text.toLowerCase());
  const wanted = fold(pattern);
  const matches = (text: string): boolean => fold(text).includes(wanted);
  return {
    matches,
    mayMatch: matches,
    steps: () => 0,
    placeOf: (line) => Math.max(0, fold(line).indexOf(wanted)),
    longLines: () => 0,
  };
};

/** @returns the query, or why the pattern is refused */
const queryOf = ({ pattern, regex = false, case_sensitive: caseSensitive = true }: GrepInput): LineQuery | string => {
  if (pattern.includes("\n"))
    return "the pattern holds a line break, but lines are searched one by one; search for one line of it";
  if (!regex) return literalQuery(pattern, caseSensitive);
  const compiled = compileRegex(pattern, { caseSensitive });
  if (!compiled.ok)
    return `as a regular expression it is not understood: ${compiled.reason}. To find it as plain text leave regex out`;
  let longLines = 0;
  return {
    matches: (line) => {
      if (line.length > REGEX_LINE_CHARS) longLines++;
      return compiled.matcher.test(line.slice(0, REGEX_LINE_CHARS));
    },
    mayMatch: () => true,
    steps: compiled.matcher.steps,
    placeOf: () => 0,
    longLines: () => longLines,
  };
};

interface Scope {
  readonly directory: DirectoryPath;
  /** Set when the path names one file. */
  readonly file?: FileEntry;
}

const scopeOf = async (fs: FileSystem, given: string): Promise<Scope | string> => {
  const parsed = parseDirectory(given);
  if (!parsed.ok) return refusedPath(given, parsed.reason);
  const file = parsePath(given);
  const stat = file.ok ? await fs.stat(file.path) : undefined;
  if (stat !== undefined) return { directory: "/" as DirectoryPath, file: stat };
  const { files } = await fs.list({ prefix: parsed.path, limit: 1 });
  if (files.length > 0 || parsed.path === "/") return { directory: parsed.path };
  return `There is no file or directory ${JSON.stringify(given)}. Find it with glob or ls.`;
};

/** The files of a search in order, from a cursor on. */
async function* filesOf(fs: FileSystem, scope: Scope, cursor: Cursor | undefined): AsyncGenerator<FileEntry> {
  if (scope.file !== undefined) {
    if (cursor?.kind !== "after") yield scope.file;
    return;
  }
  const resumed = cursor?.kind === "at" ? await fs.stat(cursor.path) : undefined;
  if (resumed !== undefined) yield resumed;
  let after: string | undefined = cursor?.path;
  do {
    const page = await fs.list({
      prefix: scope.directory,
      limit: PAGE,
      ...(after === undefined ? {} : { cursor: after }),
    });
    yield* page.files;
    after = page.cursor;
  } while (after !== undefined);
}

/** The files of a search in groups; the small ones of a group are read at once. */
async function* readAhead(fs: FileSystem, files: AsyncGenerator<FileEntry>, wanted: (path: string) => boolean) {
  const flush = async (group: readonly FileEntry[]) => {
    const reads = new Map<FilePath, FileRead | undefined>();
    const small = group.filter((file) => file.sectioned !== true && file.sizeBytes <= CHUNK_BYTES);
    await Promise.all(small.map(async ({ path }) => reads.set(path, await fs.read(path))));
    return { group, reads };
  };
  let group: FileEntry[] = [];
  for await (const file of files) {
    if (!wanted(file.path)) continue;
    group.push(file);
    if (group.length < READ_AHEAD) continue;
    yield await flush(group);
    group = [];
  }
  if (group.length > 0) yield await flush(group);
}

/** A filesystem whose reads come from what was read already. */
const reading = (fs: FileSystem, reads: ReadonlyMap<FilePath, FileRead | undefined>): FileSystem => ({
  ...fs,
  read: async (path, options) => {
    const whole = reads.get(path);
    if (whole === undefined) return fs.read(path, options);
    const { offsetBytes, lengthBytes } = options?.range ?? { offsetBytes: 0, lengthBytes: whole.sizeBytes };
    return { ...whole, bytes: whole.bytes.subarray(offsetBytes, offsetBytes + lengthBytes) };
  },
});

const grep = async (
  fs: FileSystem,
  scanBytes: number,
  input: GrepInput,
): Promise<string | { readonly error: string }> => {
  const query = queryOf(input);
  if (typeof query === "string")
    return { error: `The pattern ${JSON.stringify(input.pattern.slice(0, 200))} is refused: ${query}.` };
  const scope = await scopeOf(fs, input.path ?? "/");
  if (typeof scope === "string") return { error: scope };
  const filter = input.glob === undefined ? undefined : compileGlob(input.glob, scope.directory);
  if (filter?.ok === false)
    return { error: `The glob ${JSON.stringify(input.glob)} is not understood: ${filter.reason}.` };
  const cursor = input.cursor === undefined ? undefined : parseCursor(input.cursor);
  const inScope =
    cursor === undefined ||
    (scope.file === undefined ? cursor.path.startsWith(scope.directory) : cursor.path === scope.file.path);
  if ((input.cursor !== undefined && cursor === undefined) || !inScope) {
    return {
      error:
        "The cursor does not belong to this search. Give it exactly as the earlier answer did, with the same other inputs, or leave it out.",
    };
  }

  const mode = input.output_mode ?? "files_with_matches";
  const report = createReport(mode, input.limit ?? DEFAULT_LIMIT, query.placeOf);
  const budget: Budget = { bytesLeft: scanBytes, stepsLeft: MAX_STEPS };
  let searched = 0;
  let binary = 0;
  let next: Cursor | undefined;

  search: for await (const { group, reads } of readAhead(
    fs,
    filesOf(fs, scope, cursor),
    filter?.test ?? (() => true),
  )) {
    const fileSearch: FileSearch = {
      fs: reading(fs, reads),
      query,
      budget,
      contextLines: input.context ?? 0,
      onMatch: report.add,
    };
    for (const file of group) {
      searched++;
      const outcome = await searchFile(
        fileSearch,
        file,
        cursor?.kind === "at" && cursor.path === file.path ? cursor : undefined,
      );
      if (outcome.kind === "binary") binary++;
      const room = report.endFile(file.path);
      if (outcome.kind === "stopped") next = { kind: "at", ...outcome.at };
      else if (room === "full" || searched >= MAX_FILES) next = { kind: "after", path: file.path };
      if (next !== undefined) break search;
    }
  }

  const found = report.count();
  const counted = mode === "content" ? plural(found, "matching line") : `${plural(found, "file")} with matches`;
  const notes = [
    `${found === 0 ? "No matches" : counted} in ${plural(searched, "file")} (${formatSize(scanBytes - budget.bytesLeft)}) searched.`,
    ...(binary > 0 ? [`${plural(binary, "binary file")} left out.`] : []),
    ...(query.longLines() > 0
      ? [
          `Of ${plural(query.longLines(), "very long line")} only the first ${REGEX_LINE_CHARS} characters were searched.`,
        ]
      : []),
    ...(next === undefined
      ? []
      : [
          `Stopped at a limit before the end. To go on, repeat the call with "cursor": ${JSON.stringify(formatCursor(next))}.`,
        ]),
  ];
  return [...(found > 0 ? [report.text()] : []), `[${notes.join(" ")}]`].join("\n");
};

export const grepTool = (fs: FileSystem, { grepScanBytes = DEFAULT_SCAN_BYTES }: FileToolOptions): Tool =>
  defineTool({
    name: "grep",
    description: `Finds lines in files, by plain text or (regex: true) by regular expression. Looks through up to ${formatSize(grepScanBytes)} a call and answers up to ${DEFAULT_LIMIT} matches, then gives a cursor to go on with. In /conversation_history/ the newest part comes first.`,
    input: inputSchema,
    idempotent: true,
    run: async (input) => {
      const answer = await grep(fs, grepScanBytes, input);
      return typeof answer === "string" ? { content: answer } : toolError(answer.error);
    },
  });
