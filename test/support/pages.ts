/** The project's pages as tests read them: their fenced blocks, with what stands before a block that is not run. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

export interface Block {
  /** `sh`, `ts`, `json`, ...; empty for none. */
  readonly language: string;
  readonly text: string;
  /** The line in which it begins, from 1. */
  readonly line: number;
  /** Why it is not run, where the line before it says `<!-- not run: why -->`; null where nothing does. */
  readonly notRun: string | null;
}

/** Fenced blocks of a Markdown text, in order. */
export const blocksIn = (markdown: string): readonly Block[] =>
  [...markdown.matchAll(/(?:<!-- not run: ([^\n]+) -->\n+)?^(`{3,})([\w-]*)[^\n]*\n([\s\S]*?)^\2$/gm)].map((match) => ({
    language: match[3] ?? "",
    text: match[4] ?? "",
    line: markdown.slice(0, match.index).split("\n").length,
    notRun: match[1] ?? null,
  }));

/** Every page: those at the top and those below `docs/`, as paths from the top. */
export const allPages = async (): Promise<readonly string[]> => {
  const docs = await readdir(join(ROOT, "docs"), { recursive: true });
  return [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    ...docs.filter((path) => path.endsWith(".md")).map((path) => join("docs", path)),
  ].toSorted();
};

export const readPage = (page: string): Promise<string> => readFile(join(ROOT, page), "utf8");

/** Blocks of a page in a language that are run, in its order. */
export const runBlocks = async (page: string, language: string): Promise<readonly string[]> =>
  blocksIn(await readPage(page))
    .filter((block) => block.language === language && block.notRun === null)
    .map(({ text }) => text);

export const shellBlocks = (page: string): Promise<readonly string[]> => runBlocks(page, "sh");
