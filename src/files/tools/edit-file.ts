/** `edit_file`: replaces exact text in a file, over the version that was read, so that edits at the same time are not lost. */
import { z } from "zod";
import { defineTool, type Tool, type ToolResult, toolError } from "../../protocol/tool.ts";
import { sniff } from "../content-type.ts";
import type { FileSystem } from "../filesystem.ts";
import { type FilePath, isReadOnly, parsePath } from "../path.ts";
import { formatCount, formatSize, headOf, plural } from "../text-cut.ts";
import { MAX_FILE_BYTES, notFound, readOnly, refusedPath } from "./options.ts";

/** Each lost race means that another edit got through; more than this many at once on one file is no ordinary batch. */
const MAX_ATTEMPTS = 20;
const MAX_HINTS = 3;

interface Edit {
  readonly path: FilePath;
  readonly oldText: string;
  readonly newText: string;
  readonly replaceAll: boolean;
}

const placesOf = (text: string, wanted: string): readonly number[] => {
  const places: number[] = [];
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) places.push(at);
  return places;
};

/** The line numbers (1 for the first) of ascending positions, at most a few of them, in words. */
const lineNumbers = (text: string, places: readonly number[]): string => {
  let line = 1;
  let from = 0;
  const numbers = places.slice(0, 10).map((place) => {
    for (let at = text.indexOf("\n", from); at !== -1 && at < place; at = text.indexOf("\n", at + 1)) {
      line++;
      from = at + 1;
    }
    return line;
  });
  return `line${places.length === 1 ? "" : "s"} ${numbers.join(", ")}${places.length > numbers.length ? ", ..." : ""}`;
};

/** What may have gone wrong when the text is not in the file: the cheap guesses. */
const missHint = (text: string, wanted: string): string => {
  if (text.includes("\r\n") && !wanted.includes("\r\n") && text.includes(wanted.replaceAll("\n", "\r\n"))) {
    return "The file's lines end in \\r\\n: write \\r\\n in old_string and new_string.";
  }
  if (/^ *\d+(?:\.\d+)?\t/m.test(wanted))
    return "Leave out the line numbers and tabs that read_file puts before each line.";
  const first =
    wanted
      .split("\n")
      .find((line) => line.trim() !== "")
      ?.trim() ?? "";
  const similar = text
    .split("\n")
    .map((line, index) => ({ line, number: index + 1 }))
    .filter(({ line }) => first !== "" && line.includes(first))
    .slice(0, MAX_HINTS);
  if (similar.length === 0) return "Read the file again and copy the text exactly, white space included.";
  const shown = similar.map(({ line, number }) => `line ${number}: ${JSON.stringify(headOf(line, 200))}`).join("; ");
  return `Its first line is found, but what is around it differs (white space, or the lines after it): ${shown}.`;
};

/** The edited text, or the answer that says why there is none. */
const apply = (
  text: string,
  { path, oldText, newText, replaceAll }: Edit,
): { readonly text: string; readonly done: string } | ToolResult => {
  const places = placesOf(text, oldText);
  if (places.length === 0)
    return toolError(`old_string is not in ${path}. Nothing was changed. ${missHint(text, oldText)}`);
  if (places.length > 1 && !replaceAll) {
    return toolError(
      `old_string is in ${path} ${formatCount(places.length)} times (${lineNumbers(text, places)}). Nothing was changed. Add more of the text around it to make it unique, or set replace_all to true.`,
    );
  }
  return {
    text: text.split(oldText).join(newText),
    done: `${plural(places.length, "replacement")} (${lineNumbers(text, places)})`,
  };
};

const editOnce = async (fs: FileSystem, edit: Edit): Promise<ToolResult | "conflict"> => {
  const { path } = edit;
  const stat = await fs.stat(path);
  if (stat === undefined) return toolError(await notFound(fs, path));
  if (stat.sizeBytes > MAX_FILE_BYTES) {
    return toolError(
      `${path} has ${formatSize(stat.sizeBytes)}; files over ${formatSize(MAX_FILE_BYTES)} cannot be edited. Write a new file instead.`,
    );
  }
  const read = await fs.read(path);
  if (read === undefined) return "conflict";
  const current = sniff(read.bytes).kind === "text" ? decodeExactly(read.bytes) : undefined;
  if (current === undefined)
    return toolError(`${path} is not UTF-8 text and cannot be edited. Replace all of it with write_file.`);
  const edited = apply(current, edit);
  if ("content" in edited) return edited;
  const bytes = new TextEncoder().encode(edited.text);
  if (bytes.length > MAX_FILE_BYTES)
    return toolError(
      `The edited file would have ${formatSize(bytes.length)}; at most ${formatSize(MAX_FILE_BYTES)} are allowed.`,
    );
  const written = await fs.write(path, bytes, { ifMatch: read.etag, contentType: read.contentType });
  if ("conflict" in written) return "conflict";
  return { content: `Edited ${path}: ${edited.done}. The file now has ${formatCount(bytes.length)} bytes.` };
};

/** Text whose UTF-8 is exactly these bytes, a byte order mark included, or undefined. */
const decodeExactly = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
};

const inputSchema = z.object({
  file_path: z.string().describe("Absolute path of the file."),
  old_string: z.string().describe("The text to replace, exactly as it stands in the file."),
  new_string: z.string().describe("The text to put in its place; may be empty."),
  replace_all: z.boolean().optional().describe("Replace every occurrence. Default: false."),
});

export const editFileTool = (fs: FileSystem): Tool =>
  defineTool({
    name: "edit_file",
    description:
      "Replaces exact text in a file. old_string must be in the file exactly once, white space included, unless replace_all is true. Read the file first; leave out the line numbers that read_file shows.",
    input: inputSchema,
    idempotent: false,
    // In order with the other writes of its batch; other runs and the API are what the compare-and-swap is for.
    parallel: false,
    run: async ({ file_path: given, old_string: oldText, new_string: newText, replace_all: replaceAll = false }) => {
      const parsed = parsePath(given);
      if (!parsed.ok) return toolError(refusedPath(given, parsed.reason));
      const { path } = parsed;
      if (isReadOnly(path)) return toolError(readOnly(path));
      if (oldText === "")
        return toolError(
          "old_string is empty; give the text to replace. To create a file or replace all of it, use write_file.",
        );
      if (oldText === newText)
        return toolError(
          "old_string and new_string are the same; nothing would change. Give the changed text as new_string.",
        );
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const result = await editOnce(fs, { path, oldText, newText, replaceAll });
        if (result !== "conflict") return result;
      }
      return toolError(
        `${path} was changed by others ${MAX_ATTEMPTS} times during this edit. Nothing was changed by it. Read the file and try again.`,
      );
    },
  });
