/** What of a migration the Worker that runs now may not survive: it knows the schema from before. */
import type { Migration } from "../migrate.ts";

export interface Breaking {
  readonly tag: string;
  /** The clause, as it stands in the file. */
  readonly clause: string;
}

/** Comments, and texts in which a word is no keyword: string literals and the bodies of functions. */
const NO_STATEMENT = /--[^\n]*|\/\*[\s\S]*?\*\/|\$(\w*)\$[\s\S]*?\$\1\$|'(?:[^']|'')*'/g;

/** An index, a constraint or a trigger that is gone keeps no statement from running, nor does a column that may be null now. */
const CLAUSES: readonly RegExp[] = [
  /\bdrop\s+(?:table|column|schema|view|materialized\s+view|function|procedure|type|domain|sequence|default)\b[^;,]*/gi,
  /\brename\b[^;,]*/gi,
  /\balter\s+(?:column\s+)?\S+\s+(?:set\s+data\s+)?type\b[^;,]*/gi,
  /\bset\s+not\s+null\b[^;,]*/gi,
  /\badd\s+(?:column\s+)?(?:if\s+not\s+exists\s+)?"[^"]+"(?=[^;,]*\bnot\s+null\b)(?![^;,]*\b(?:default|generated)\b)[^;,]*/gi,
];

const LONGEST_CLAUSE = 120;

const short = (clause: string): string => {
  const line = clause.replace(/\s+/g, " ").trim();
  return line.length > LONGEST_CLAUSE ? `${line.slice(0, LONGEST_CLAUSE)}...` : line;
};

/** Every clause that drops, renames or narrows what an older Worker reads or writes, in the order of the migrations. */
export const breakingClauses = (migrations: readonly Migration[]): readonly Breaking[] =>
  migrations.flatMap(({ tag, statements }) =>
    statements.flatMap((statement) => {
      const bare = statement.replace(NO_STATEMENT, " ");
      return CLAUSES.flatMap((pattern) =>
        [...bare.matchAll(pattern)].map(([clause]) => ({ tag, clause: short(clause) })),
      );
    }),
  );
