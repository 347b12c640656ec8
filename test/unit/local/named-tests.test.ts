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
