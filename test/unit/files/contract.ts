/** What every backend of `files/filesystem.ts` must do; run against each of them. */
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import type { FileList, FileSystem } from "../../../src/files/filesystem.ts";
import { countLines } from "../../../src/files/line-index.ts";
import { comparePaths, parseDirectory, parsePath } from "../../../src/files/path.ts";
import { sha256Hex } from "../../../src/protocol/sha256.ts";

export const at = (text: string) => {
  const parsed = parsePath(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.reason}`);
  return parsed.path;
};

const text = (read: { readonly bytes: Uint8Array } | undefined) =>
  read === undefined ? undefined : new TextDecoder().decode(read.bytes);

const etagOf = (written: { readonly etag: string } | { readonly conflict: true }) => {
  if ("conflict" in written) throw new Error("conflict");
  return written.etag;
};

/** All pages of a listing. */
const listAll = async (fs: FileSystem, prefix: string, limit: number) => {
  const paths: string[] = [];
  let cursor: string | undefined;
  do {
    const page: FileList = await fs.list({ prefix, limit, ...(cursor === undefined ? {} : { cursor }) });
    expect(page.files.length).toBeLessThanOrEqual(limit);
    paths.push(...page.files.map(({ path }) => path));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return paths;
};

/** @param make a new, empty filesystem every time */
export const fileSystemContract = (name: string, make: () => Promise<FileSystem>, runs: number): void => {
  describe(`${name} keeps the filesystem's contract`, () => {
    let fs: FileSystem;
    beforeEach(async () => {
      fs = await make();
    });

    it("answers undefined for what is not there", async () => {
      expect([await fs.stat(at("/a")), await fs.read(at("/a")), await fs.remove(at("/a"))]).toEqual([
        undefined,
        undefined,
        false,
      ]);
      expect(await fs.read(at("/a"), { range: { offsetBytes: 5, lengthBytes: 5 } })).toBeUndefined();
      expect(await fs.list({ prefix: "/", limit: 10 })).toEqual({ files: [] });
    });

    it("gives back the bytes that were written, and says size, etag, type and lines", async () => {
      const bytes = new Uint8Array([0, 255, 10, 200, 10, 65]);
      const etag = etagOf(await fs.write(at("/a/b.bin"), bytes, { contentType: "application/x-test" }));
      expect(await fs.read(at("/a/b.bin"))).toEqual({ bytes, etag, sizeBytes: 6, contentType: "application/x-test" });
      expect(await fs.stat(at("/a/b.bin"))).toEqual({
        path: "/a/b.bin",
        sizeBytes: 6,
        modifiedMs: expect.any(Number),
        etag,
        contentType: "application/x-test",
        lines: { newlines: 2, endsWithNewline: false, marks: [{ newlines: 0, offsetBytes: 0 }] },
      });
    });

    it("writes text as UTF-8 and guesses the type", async () => {
      await fs.write(at("/ü/😀.json"), '{"é":"😀"}');
      const read = await fs.read(at("/ü/😀.json"));
      expect([text(read), read?.contentType]).toEqual(['{"é":"😀"}', "application/json"]);
      await fs.write(at("/empty"), "");
      expect([(await fs.read(at("/empty")))?.bytes.length, (await fs.stat(at("/empty")))?.sizeBytes]).toEqual([0, 0]);
    });

    it("cuts a range to the file", async () => {
      await fs.write(at("/a"), "0123456789");
      const cut = async (offsetBytes: number, lengthBytes: number) => {
        const read = await fs.read(at("/a"), { range: { offsetBytes, lengthBytes } });
        return [text(read), read?.sizeBytes];
      };
      expect(await Promise.all([cut(0, 3), cut(3, 4), cut(8, 100), cut(10, 5), cut(100, 5), cut(4, 0)])).toEqual([
        ["012", 10],
        ["3456", 10],
        ["89", 10],
        ["", 10],
        ["", 10],
        ["", 10],
      ]);
      await fs.write(at("/empty"), "");
      expect(text(await fs.read(at("/empty"), { range: { offsetBytes: 0, lengthBytes: 5 } }))).toBe("");
    });

    it("swaps only over the version that was seen", async () => {
      const first = etagOf(await fs.write(at("/a"), "1", { ifNoneMatch: "*" }));
      expect(await fs.write(at("/a"), "2", { ifNoneMatch: "*" })).toEqual({ conflict: true });
      const second = etagOf(await fs.write(at("/a"), "2", { ifMatch: first }));
      expect(second).not.toBe(first);
      expect(await fs.write(at("/a"), "3", { ifMatch: first })).toEqual({ conflict: true });
      expect(await fs.write(at("/none"), "3", { ifMatch: first })).toEqual({ conflict: true });
      expect([text(await fs.read(at("/a"))), await fs.stat(at("/none"))]).toEqual(["2", undefined]);
    });

    it("lets exactly one of many racing writers win", async () => {
      const etag = etagOf(await fs.write(at("/a"), "start"));
      const race = await Promise.all(
        Array.from({ length: 8 }, (_, index) => fs.write(at("/a"), `w${index}`, { ifMatch: etag })),
      );
      expect(race.filter((result) => !("conflict" in result)).length).toBe(1);
      const create = await Promise.all(
        Array.from({ length: 8 }, (_, index) => fs.write(at("/b"), `w${index}`, { ifNoneMatch: "*" })),
      );
      expect(create.filter((result) => !("conflict" in result)).length).toBe(1);
    });

    it("shows sections as one file, in the order of their keys, not of their writing (M1)", async () => {
      await fs.append(at("/h/x.md"), "ten\n", { first: 10, last: 12 });
      await fs.append(at("/h/x.md"), "hundred", { first: 100, last: 120 });
      const third = await fs.append(at("/h/x.md"), "twö\nlines\n", { first: 2, last: 9 });
      expect(third).toEqual({ sizeBytes: 11, sha256: await sha256Hex("twö\nlines\n") });
      expect(text(await fs.read(at("/h/x.md")))).toBe("twö\nlines\nten\nhundred");
      const stat = await fs.stat(at("/h/x.md"));
      expect(stat).toEqual({
        path: "/h/x.md",
        sizeBytes: 22,
        modifiedMs: expect.any(Number),
        etag: expect.any(String),
        contentType: "text/markdown; charset=utf-8",
        lines: {
          newlines: 3,
          endsWithNewline: false,
          marks: [
            { newlines: 0, offsetBytes: 0 },
            { newlines: 2, offsetBytes: 11 },
            { newlines: 3, offsetBytes: 15 },
          ],
        },
        sections: [
          { key: { first: 2, last: 9 }, offsetBytes: 0, sizeBytes: 11, newlinesBefore: 0 },
          { key: { first: 10, last: 12 }, offsetBytes: 11, sizeBytes: 4, newlinesBefore: 2 },
          { key: { first: 100, last: 120 }, offsetBytes: 15, sizeBytes: 7, newlinesBefore: 3 },
        ],
        sectioned: true,
      });
      const { path, sizeBytes, modifiedMs, etag } = stat ?? {};
      expect(await fs.list({ prefix: "/h", limit: 5 })).toEqual({
        files: [{ path, sizeBytes, modifiedMs, etag, sectioned: true }],
      });
      expect(stat?.lines === undefined ? 0 : countLines(stat.lines, stat.sizeBytes)).toBe(4);
    });

    it("replaces a section that is appended again under its key, and changes the file's etag only if its text changed (M1)", async () => {
      await fs.append(at("/h"), "one\n", { first: 1, last: 5 });
      const before = await fs.stat(at("/h"));
      await fs.append(at("/h"), "one\n", { first: 1, last: 5 });
      expect({ ...(await fs.stat(at("/h"))), modifiedMs: 0 }).toEqual({ ...before, modifiedMs: 0 });
      await fs.append(at("/h"), "uno\n", { first: 1, last: 5 });
      expect(text(await fs.read(at("/h")))).toBe("uno\n");
      expect((await fs.stat(at("/h")))?.etag).not.toBe(before?.etag);
    });

    it("does not show a section whose range lies within another's (M1)", async () => {
      await fs.append(at("/h"), "1-3\n", { first: 1, last: 3 });
      await fs.append(at("/h"), "1-5\n", { first: 1, last: 5 });
      await fs.append(at("/h"), "4-5\n", { first: 4, last: 5 });
      await fs.append(at("/h"), "5-9\n", { first: 5, last: 9 });
      expect(text(await fs.read(at("/h")))).toBe("1-5\n5-9\n");
    });

    it.each([
      { first: -1, last: 2 },
      { first: 3, last: 2 },
      { first: 1.5, last: 2 },
      { first: 0, last: Number.POSITIVE_INFINITY },
    ])("refuses a section key that is no range: %j", async (key) => {
      await expect(fs.append(at("/h"), "x", key)).rejects.toThrow(RangeError);
    });

    it("reads any range of a sectioned file as of the joined text", async () => {
      const pieces = ["alpha\n", "", "be\nta\n", "gamma"];
      for (const [index, piece] of pieces.entries()) await fs.append(at("/h"), piece, { first: index, last: index });
      await fc.assert(
        fc.asyncProperty(fc.nat(20), fc.nat(20), async (offsetBytes, lengthBytes) => {
          const read = await fs.read(at("/h"), { range: { offsetBytes, lengthBytes } });
          expect([text(read), read?.sizeBytes]).toEqual([
            pieces.join("").slice(offsetBytes, offsetBytes + lengthBytes),
            17,
          ]);
        }),
        { numRuns: runs },
      );
    });

    it("keeps files apart whose paths begin alike", async () => {
      await fs.append(at("/a"), "1", { first: 1, last: 1 });
      await fs.append(at("/a/b"), "2", { first: 1, last: 1 });
      await fs.write(at("/a/c"), "3");
      await fs.write(at("/ab"), "4");
      expect(await fs.remove(at("/a"))).toBe(true);
      expect(await listAll(fs, "/", 10)).toEqual(["/a/b", "/a/c", "/ab"]);
      expect(await listAll(fs, "/a/", 10)).toEqual(["/a/b", "/a/c"]);
      expect(await listAll(fs, "/a/b", 10)).toEqual(["/a/b"]);
    });

    it("shows the object where a path has an object and sections, once, and removes both", async () => {
      await fs.append(at("/a"), "section", { first: 1, last: 1 });
      await fs.write(at("/a"), "object");
      expect([text(await fs.read(at("/a"))), await listAll(fs, "/", 10)]).toEqual(["object", ["/a"]]);
      expect([await fs.remove(at("/a")), await fs.stat(at("/a")), await fs.remove(at("/a"))]).toEqual([
        true,
        undefined,
        false,
      ]);
    });

    it("reads the object alone where sections are not wanted", async () => {
      await fs.append(at("/a"), "section", { first: 1, last: 1 });
      expect(await fs.read(at("/a"), { objectOnly: true })).toBeUndefined();
      await fs.write(at("/a"), "object");
      expect(text(await fs.read(at("/a"), { objectOnly: true }))).toBe("object");
      await fs.append(at("/b"), "section", { first: 1, last: 1 });
      const { files } = await fs.list({ prefix: "/", limit: 10, objectOnly: true });
      expect(files.map(({ path, sectioned }) => [path, sectioned])).toEqual([["/a", undefined]]);
    });

    it("names the folders of a directory, not what is deeper, beside them or appended to", async () => {
      for (const path of ["/s/b/x", "/s/b/y/z", "/s/a/x", "/s/plain", "/sa/x"]) await fs.write(at(path), "x");
      await fs.append(at("/s/c/log"), "x\n", { first: 1, last: 1 });
      const directory = parseDirectory("/s/");
      if (!directory.ok) throw new Error(directory.reason);
      expect([await fs.folders(directory.path, 10), await fs.folders(directory.path, 1)]).toEqual([["a", "b"], ["a"]]);
    });

    it("lists in the order of code points, in pages that miss nothing and repeat nothing", async () => {
      const names = ["/a", "/a b", "/a/b", "/a/b/c", "/a0", "/B", "/z\uffee", "/z\u{1f600}", "/é"];
      for (const [index, path] of names.entries()) {
        if (index % 3 === 0) await fs.append(at(path), "s\n", { first: 1, last: 1 });
        else await fs.write(at(path), "f");
        if (index % 4 === 0) await fs.append(at(path), "t\n", { first: 2, last: 2 });
      }
      const expected = [...names].sort(comparePaths);
      for (const limit of [1, 2, 3, 100]) expect(await listAll(fs, "/", limit)).toEqual(expected);
      expect(
        (await fs.list({ prefix: "/", limit: 100, cursor: "/a/\u{10ffff}" })).files.map(({ path }) => path),
      ).toEqual(expected.filter((path) => comparePaths(path, "/a/\u{10ffff}") > 0));
    });

    it("removes everything", async () => {
      for (let index = 0; index < 5; index++) {
        await fs.write(at(`/f${index}`), "x");
        await fs.append(at("/h"), "x", { first: index, last: index });
      }
      expect([await fs.removeAll(), await fs.list({ prefix: "/", limit: 10 }), await fs.removeAll()]).toEqual([
        10,
        { files: [] },
        0,
      ]);
    });

    it("knows where lines start in a large file, objects and sections alike", async () => {
      const line = (index: number) => `line ${index} ${"x".repeat(index % 90)}\n`;
      const whole = Array.from({ length: 6_000 }, (_, index) => line(index)).join("");
      await fs.write(at("/big"), whole);
      const half = whole.indexOf("line 3000 ");
      await fs.append(at("/log"), whole.slice(0, half + 3), { first: 1, last: 1 });
      await fs.append(at("/log"), whole.slice(half + 3), { first: 2, last: 2 });
      for (const path of [at("/big"), at("/log")]) {
        const marks = (await fs.stat(path))?.lines?.marks ?? [];
        expect(marks.length).toBeGreaterThan(3);
        for (const { newlines, offsetBytes } of marks) {
          expect(whole.slice(offsetBytes).startsWith(`line ${newlines} `)).toBe(true);
        }
      }
    });
  });
};
