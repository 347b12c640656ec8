import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { type TarEntry, tarStream } from "../../../src/api/tar.ts";

const folder = mkdtempSync(join(tmpdir(), "hango-tar-"));
afterAll(() => rmSync(folder, { recursive: true }));

const bytesOf = (text: string) => new TextEncoder().encode(text);

const entry = (name: string, ...parts: readonly string[]): TarEntry => ({
  name,
  sizeBytes: parts.reduce((sum, part) => sum + bytesOf(part).byteLength, 0),
  modifiedMs: Date.UTC(2026, 9, 1, 12, 30, 15, 999),
  body: (async function* () {
    yield* parts.map(bytesOf);
  })(),
});

const each = async function* (entries: readonly TarEntry[]) {
  yield* entries;
};

const neverFails = (error: unknown) => {
  throw error;
};

const archive = async (entries: readonly TarEntry[]): Promise<string> => {
  const stream = tarStream(each(entries), neverFails);
  const path = join(folder, "a.tar");
  writeFileSync(path, new Uint8Array(await new Response(stream).arrayBuffer()));
  return path;
};

const tar = (...args: readonly string[]): string =>
  execFileSync("tar", args, { encoding: "utf8", env: { LC_ALL: "C.UTF-8", TZ: "UTC", PATH: process.env.PATH } });
const list = (path: string) => tar("--quoting-style=literal", "-tf", path).split("\n").slice(0, -1);
const extract = (path: string, name: string) => tar("-xOf", path, name);

describe("a tar stream", () => {
  it("is listed by tar with names, sizes and times, in order", async () => {
    const path = await archive([
      entry("session.json", "{}\n"),
      entry("messages.jsonl"),
      entry("files/notes/a b.md", "x"),
    ]);
    expect(tar("--numeric-owner", "--full-time", "-tvf", path).split("\n").slice(0, -1)).toEqual([
      "-rw-r--r-- 0/0               3 2026-10-01 12:30:15 session.json",
      "-rw-r--r-- 0/0               0 2026-10-01 12:30:15 messages.jsonl",
      "-rw-r--r-- 0/0               1 2026-10-01 12:30:15 files/notes/a b.md",
    ]);
    expect(readFileSync(path).byteLength % 512).toBe(0);
  });

  it("holds bodies that come in parts, of sizes around a block", async () => {
    const bodies = ["", "a", "b".repeat(511), "c".repeat(512), "d".repeat(513), "é".repeat(700)];
    const path = await archive(bodies.map((text, index) => entry(`f${index}`, text.slice(0, 300), text.slice(300))));
    expect(bodies.map((_, index) => extract(path, `f${index}`))).toEqual(bodies);
  });

  it.each([
    ["as long as the name field", "n".repeat(100)],
    ["longer, without a slash", "n".repeat(101)],
    ["split into both fields", `${"p".repeat(155)}/${"n".repeat(100)}`],
    ["too long for both fields", `${"p".repeat(156)}/${"n".repeat(100)}`],
    ["with no slash where it could be split", `${"p".repeat(20)}/${"n".repeat(120)}`],
    ["very long", `files/${"d/".repeat(300)}${"n".repeat(200)}`],
    ["in another script", "files/日记/заметки 📝.md"],
    ["whose record's length has one digit more than its rest's", `é${"n".repeat(89)}`],
  ])("keeps a name %s", async (_, name) => {
    const path = await archive([entry(name, "body"), entry("after", "x")]);
    expect([list(path), extract(path, name)]).toEqual([[name, "after"], "body"]);
  });

  it("keeps any name of letters, slashes and other scripts", async () => {
    const part = fc.string({ unit: fc.constantFrom("a", "B", "7", "é", "日", "-"), minLength: 1, maxLength: 90 });
    const names = fc.uniqueArray(
      fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join("/")),
      {
        minLength: 1,
        maxLength: 8,
      },
    );
    await fc.assert(
      fc.asyncProperty(names, async (given) => {
        expect(list(await archive(given.map((name) => entry(name, name))))).toEqual(given);
      }),
      { numRuns: 25 },
    );
  });

  it("errors instead of ending cleanly when an entry fails, and tells why", async () => {
    const failing: TarEntry = {
      ...entry("b", "1234"),
      body: (async function* () {
        yield bytesOf("12");
        throw new Error("secret detail");
      })(),
    };
    const told: unknown[] = [];
    const stream = tarStream(each([entry("a", "x"), failing]), (error) => told.push(error));
    await expect(new Response(stream).arrayBuffer()).rejects.toThrow("the archive could not be finished");
    expect(told).toEqual([new Error("secret detail")]);
  });

  it.each([
    ["shorter", ["12"]],
    ["longer", ["1234", "5"]],
  ])("errors when a body is %s than its header says", async (_, parts) => {
    const wrong: TarEntry = { ...entry("a", "1234"), body: entry("a", ...parts).body };
    const told: unknown[] = [];
    await expect(new Response(tarStream(each([wrong]), (error) => told.push(error))).arrayBuffer()).rejects.toThrow();
    expect(told).toEqual([new Error("the size of a tar entry differs from its header")]);
  });

  it("reads no further than it is read, and lets go of its source when the reader leaves", async () => {
    let made = 0;
    let closed = false;
    const endless = async function* () {
      try {
        for (;;) {
          made++;
          yield entry(`f${made}`, "x");
        }
      } finally {
        closed = true;
      }
    };
    const reader = tarStream(endless(), neverFails).getReader();
    await reader.read();
    await reader.cancel();
    expect([made <= 2, closed]).toEqual([true, true]);
  });
});
