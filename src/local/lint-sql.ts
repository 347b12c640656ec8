/** Rules of the database that no general linter knows: the one clock, `json` content, and migrations that drizzle will really run. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const PROJECT = join(import.meta.dirname, "../..");

/** The migration that defines `hango_now()`; it alone may ask for the time. */
const CLOCK_MIGRATION = "0000_clock.sql";

export interface SourceFile {
  /** Path relative to the project. */
  readonly path: string;
  readonly text: string;
}

interface Rule {
  readonly pattern: RegExp;
  readonly says: string;
}

const RULES: readonly Rule[] = [
  {
    pattern: /(?<![\w.$])(?:now|transaction_timestamp|statement_timestamp|clock_timestamp|timeofday)\s*\(\s*\)/gi,
    says: "ask hango_now(), which tests can move, not the database's own clock",
  },
  {
    pattern: /\b(?:current_timestamp|current_time|current_date|localtimestamp|localtime)\b/gi,
    says: "ask hango_now(), which tests can move, not the database's own clock",
  },
  { pattern: /\bdefaultNow\s*\(/g, says: "default to hango_now(), which tests can move" },
  { pattern: /"?\bcontent\b"?\s+jsonb\b/gi, says: "content is json: jsonb reorders keys and refuses NUL escapes (V9)" },
  {
    pattern: /\bjsonb\(\s*["'`]content["'`]/g,
    says: "content is json: jsonb reorders keys and refuses NUL escapes (V9)",
  },
  { pattern: /\bcontent\s*::\s*jsonb\b/gi, says: "content is json: jsonb reorders keys and refuses NUL escapes (V9)" },
];

/** Blanks comments out and keeps the lines: a comment may well speak of now(). A `--` in SQL counts only at the start of a line or after white space. */
const withoutComments = ({ path, text }: SourceFile): string => {
  const blank = (comment: string) => comment.replace(/[^\n]/g, " ");
  const blocks = text.replace(/\/\*[\s\S]*?\*\//g, blank);
  return path.endsWith(".sql")
    ? blocks.replace(/(?<=^|\s)--.*$/gm, blank)
    : blocks.replace(/(?<=^|\s)\/\/.*$/gm, blank);
};

/**
 * Checks sources of `src/store` and `drizzle`.
 * @returns a line for each breach: path, line, what was found, what to do
 */
export const lintSources = (files: readonly SourceFile[]): readonly string[] =>
  files
    .filter((file) => !file.path.endsWith(`/${CLOCK_MIGRATION}`))
    .flatMap((file) => {
      const code = withoutComments(file);
      return RULES.flatMap(({ pattern, says }) =>
        [...code.matchAll(pattern)].map(({ 0: found, index }) => {
          const line = code.slice(0, index).split("\n").length;
          return `${file.path}:${line}: ${found.replace(/\s+/g, " ")}: ${says}`;
        }),
      );
    });

export interface Journal {
  readonly entries: readonly { readonly idx: number; readonly when: number; readonly tag: string }[];
}

/**
 * Checks that drizzle's migrator will run every migration: it silently skips one whose `when` is not newer than the newest applied.
 * @param names the `.sql` files beside the journal
 * @returns a line for each breach
 */
export const lintJournal = ({ entries }: Journal, names: readonly string[]): readonly string[] => {
  const tags = entries.map((entry) => `${entry.tag}.sql`);
  return [
    ...entries.flatMap((entry, index) => {
      const before = entries[index - 1];
      return [
        ...(entry.idx === index ? [] : [`${entry.tag}: has idx ${entry.idx}, stands at ${index}`]),
        ...(entry.tag.startsWith(String(index).padStart(4, "0")) ? [] : [`${entry.tag}: is not numbered ${index}`]),
        ...(before === undefined || entry.when > before.when
          ? []
          : [`${entry.tag}: is not newer than ${before.tag} and would be skipped`]),
      ];
    }),
    ...tags
      .filter((name) => !names.includes(name))
      .map((name) => `${name}: is in the journal, and there is no such file`),
    ...names.filter((name) => !tags.includes(name)).map((name) => `${name}: is not in the journal and would never run`),
  ];
};

const read = async (directory: string, pattern: RegExp): Promise<readonly SourceFile[]> => {
  const names = (await readdir(join(PROJECT, directory), { recursive: true }))
    .filter((name) => pattern.test(name))
    .sort();
  return Promise.all(
    names.map(async (name) => ({
      path: `${directory}/${name}`,
      text: await readFile(join(PROJECT, directory, name), "utf8"),
    })),
  );
};

if (import.meta.main) {
  const migrations = await read("drizzle", /\.sql$/);
  const journal: Journal = JSON.parse(await readFile(join(PROJECT, "drizzle/meta/_journal.json"), "utf8"));
  const names = migrations.map(({ path }) => path.slice("drizzle/".length));
  const problems = [
    ...lintSources([...(await read("src/store", /\.ts$/)), ...migrations]),
    ...lintJournal(journal, names),
  ];
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
