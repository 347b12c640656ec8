import { describe, expect, test } from "vitest";
import { lintJournal, lintSources } from "../../../src/local/lint-sql.ts";

const CLOCK = "ask hango_now(), which tests can move, not the database's own clock";
const JSON_CONTENT = "content is json: jsonb reorders keys and refuses NUL escapes (V9)";

describe("SQL", () => {
  test.each([
    ["select now()", `now(): ${CLOCK}`],
    ["select NOW ( )", `NOW ( ): ${CLOCK}`],
    ["where expires_at < clock_timestamp()", `clock_timestamp(): ${CLOCK}`],
    ["default CURRENT_TIMESTAMP", `CURRENT_TIMESTAMP: ${CLOCK}`],
    ["set at = localtimestamp", `localtimestamp: ${CLOCK}`],
    ['createdAt: time("created_at").defaultNow()', "defaultNow(: default to hango_now(), which tests can move"],
    ['"content" jsonb NOT NULL', `"content" jsonb: ${JSON_CONTENT}`],
    ["content  jsonb", `content jsonb: ${JSON_CONTENT}`],
    ['content: jsonb("content")', `jsonb("content": ${JSON_CONTENT}`],
    ["select content::jsonb", `content::jsonb: ${JSON_CONTENT}`],
  ])("is refused: %s", (text, problem) => {
    expect(lintSources([{ path: "src/store/x.ts", text: `const a = 1;\n${text}\n` }])).toEqual([
      `src/store/x.ts:2: ${problem}`,
    ]);
  });

  test.each([
    "select hango_now()",
    "const at = Date.now();",
    "performance.now()",
    "// never now()",
    "/* CURRENT_TIMESTAMP\n now() */ const a = 1;",
    '"metadata" jsonb',
    '"content" json NOT NULL',
  ])("passes: %s", (text) => {
    expect(lintSources([{ path: "src/store/x.ts", text }])).toEqual([]);
  });

  test("may ask for the time in the migration that defines hango_now(), and in no other", () => {
    const text = "-- the one clock: now()\nSELECT now();\n";
    expect(lintSources([{ path: "drizzle/0000_clock.sql", text }])).toEqual([]);
    expect(lintSources([{ path: "drizzle/0001_tables.sql", text }])).toEqual([
      `drizzle/0001_tables.sql:2: now(): ${CLOCK}`,
    ]);
  });
});

describe("the migration journal", () => {
  const entry = (idx: number, when: number, tag: string) => ({ idx, when, tag });
  const good = [entry(0, 10, "0000_a"), entry(1, 20, "0001_b")];

  test("passes when it is in order and matches the files", () => {
    expect(lintJournal({ entries: good }, ["0000_a.sql", "0001_b.sql"])).toEqual([]);
  });

  test.each([
    [
      "an older migration after a newer one",
      [entry(0, 20, "0000_a"), entry(1, 10, "0001_b")],
      ["0001_b: is not newer than 0000_a and would be skipped"],
    ],
    [
      "two of the same time",
      [entry(0, 10, "0000_a"), entry(1, 10, "0001_b")],
      ["0001_b: is not newer than 0000_a and would be skipped"],
    ],
    ["a wrong idx", [entry(0, 10, "0000_a"), entry(2, 20, "0001_b")], ["0001_b: has idx 2, stands at 1"]],
    [
      "a wrong number",
      [entry(0, 10, "0000_a"), entry(1, 20, "0002_b")],
      [
        "0002_b: is not numbered 1",
        "0002_b.sql: is in the journal, and there is no such file",
        "0001_b.sql: is not in the journal and would never run",
      ],
    ],
    [
      "a file that it does not list",
      [entry(0, 10, "0000_a")],
      ["0001_b.sql: is not in the journal and would never run"],
    ],
    [
      "a file that is not there",
      [...good, entry(2, 30, "0002_c")],
      ["0002_c.sql: is in the journal, and there is no such file"],
    ],
  ])("is refused with %s", (_name, entries, problems) => {
    expect(lintJournal({ entries }, ["0000_a.sql", "0001_b.sql"])).toEqual(problems);
  });
});
