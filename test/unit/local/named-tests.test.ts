/** The pages that promise something name the test that holds it. A name that leads nowhere is a promise that nobody keeps. */
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");

const isThere = (path: string): Promise<boolean> =>
  access(join(ROOT, path)).then(
    () => true,
    () => false,
  );

/** Where a short name of reliability.md may stand. */
const PLACES = ["test/worker", "test/unit", "test"];

const whereOf = (name: string): readonly string[] =>
  name.startsWith("test/") ? [name] : PLACES.map((place) => `${place}/${name}`);

describe("every test that is named in", () => {
  it.each(["docs/testing.md", "docs/reliability.md"])("%s is there", async (page) => {
    const text = await readFile(join(ROOT, page), "utf8");
    const names = [...new Set([...text.matchAll(/`([\w/.-]+\.test\.ts)`/g)].map(([, name = ""]) => name))];
    expect(names.length).toBeGreaterThan(10);
    const found = await Promise.all(
      names.map(async (name) => (await Promise.all(whereOf(name).map(isThere))).some(Boolean)),
    );
    expect(names.filter((_, index) => !found[index])).toEqual([]);
  });
});

/** `test/unit/context/cut.test.ts` "has an answer for %s": a file, and a title as its source has it. */
const TITLED = /`(test\/[\w/.-]+)` "([^"]+)"/g;

describe("every title that is named in", () => {
  it.each(["docs/learning/11-compaction-lessons.md"])(
    "%s is there, and every row of its tables names one",
    async (page) => {
      const text = await readFile(join(ROOT, page), "utf8");
      const rows = text.split("\n").filter((line) => /^\| (?!---|what failed)/.test(line));
      expect(rows.length).toBeGreaterThan(100);
      expect(rows.filter((row) => row.match(TITLED) === null)).toEqual([]);
      const named = [...text.matchAll(TITLED)].map(([, path = "", title = ""]) => ({ path, title }));
      const sources = new Map<string, string>();
      for (const { path } of named)
        if (!sources.has(path)) sources.set(path, await readFile(join(ROOT, path), "utf8").catch(() => ""));
      const missing = named.filter(({ path, title }) => sources.get(path)?.includes(title) !== true);
      expect(missing.map(({ path, title }) => `${path}: ${title}`)).toEqual([]);
    },
  );
});
