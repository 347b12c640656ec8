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
  [
    ...markdown.matchAll(
      /(?:<!-- not run: ([^\n]+) -->\s*\n)?^[ \t>]*(`{3,}|~{3,})[ \t]*([\w-]*)[^\n]*\n([\s\S]*?)^[ \t>]*\2[ \t]*$/gm,
    ),
  ].map((match) => ({
    language: (match[3] ?? "").toLowerCase(),
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

/** Languages of the blocks that are run of a page, and the test that runs them, as it names the page. */
export const RUN_PAGES: Readonly<Record<string, { readonly languages: readonly string[]; readonly test: string }>> = {
  "README.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/api.md": { languages: ["sh", "ts"], test: "test/slow/docs.test.ts" },
  "docs/context.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/history.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/learning/10-context-management.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/memory.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/micro-compaction.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/operations.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/quickstart.md": { languages: ["sh"], test: "test/slow/quickstart.test.ts" },
  "docs/skills.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/subagents.md": { languages: ["sh"], test: "test/slow/docs.test.ts" },
  "docs/webhooks.md": { languages: ["sh", "ts"], test: "test/slow/docs.test.ts" },
};

/** Why a command may be left out; there are no others. */
export const REASONS_NOT_TO_RUN: readonly string[] = [
  "needs a Cloudflare account",
  "it needs your Grafana",
  "starts what is running",
  "starts what is running, and every test",
  "Prometheus need not be there; test/slow/prometheus.test.ts does it",
];

/** Languages whose blocks somebody types or runs. */
export const COMMAND_LANGUAGES: readonly string[] = ["sh", "bash", "shell", "ts"];
