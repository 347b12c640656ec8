import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  comparePaths,
  isReadOnly,
  MAX_PATH_BYTES,
  MAX_SEGMENT_BYTES,
  parseDirectory,
  parsePath,
} from "../../../src/files/path.ts";

describe("a file path is normalised", () => {
  it.each([
    ["/a", "/a"],
    ["a", "/a"],
    ["./a/./b", "/a/b"],
    ["//a///b", "/a/b"],
    ["/a/.b", "/a/.b"],
    ["/a/b..c", "/a/b..c"],
    ["/a/..b", "/a/..b"],
    ["/~/x", "/~/x"],
    ["C:/x", "/C:/x"],
    ["file:///etc/passwd", "/file:/etc/passwd"],
    ["/100%", "/100%"],
    ["/50%20off.md", "/50%20off.md"],
    ["/re\u0301sume\u0301.md", "/r\u00e9sum\u00e9.md"],
    ["/\u{1f468}\u200d\u{1f469}\u200d\u{1f467}.png", "/\u{1f468}\u200d\u{1f469}\u200d\u{1f467}.png"],
    ["/report\u2026final.txt", "/report\u2026final.txt"],
    ["/a b/$&/`x`", "/a b/$&/`x`"],
    [`/${"a".repeat(MAX_SEGMENT_BYTES)}`, `/${"a".repeat(MAX_SEGMENT_BYTES)}`],
  ])("%j is %j", (text, path) => {
    expect(parsePath(text)).toEqual({ ok: true, path });
  });
});

describe("a file path never leaves the session: refused, with a reason, is", () => {
  it.each([
    [""],
    ["/"],
    ["."],
    ["./"],
    ["/a/"],
    ["/a/."],
    [".."],
    ["../a"],
    ["/../a"],
    ["/a/../b"],
    ["/a/.."],
    ["a/b/../../../c"],
    ["/..."],
    ["/.. /a"],
    ["/ ../a"],
    ["/.\u200b./a"],
    ["/\u200b/a"],
    ["/ /a"],
    ["/%2e%2e/a"],
    ["/%2E%2e/a"],
    ["/.%2e/a"],
    ["/a%2fb"],
    ["/a%2Fb"],
    ["/a%5cb"],
    ["/%252e%252e/a"],
    ["/a%252fb"],
    ["/a%25252fb"],
    ["/a%255cb"],
    ["/%%32%65%%32%65/a"],
    ["/%25%32%65/a"],
    ["/%c0%ae%c0%ae/a"],
    ["/a%c0%afb"],
    ["/a%e0%80%afb"],
    ["/%u002e%u002e/a"],
    ["/a%00b"],
    ["/a%2500b"],
    ["/a%0ab"],
    ["/a\\b"],
    ["..\\a"],
    ["C:\\windows"],
    ["\\\\host\\share"],
    ["/a\u0000b"],
    ["/a\u0000/../b"],
    ["/a\nb"],
    ["/a\r\nb"],
    ["/a\tb"],
    ["/a\u007fb"],
    ["/a\u0085b"],
    ["/a\u2028b"],
    ["/\u2024\u2024/a"],
    ["/\u2025/a"],
    ["/\u2026/a"],
    ["/.\u2024/a"],
    ["/\uff0e\uff0e/a"],
    ["/\ufe52\ufe52/a"],
    ["/\u3002\u3002/a"],
    ["/a\u2215b"],
    ["/a\u2044b"],
    ["/a\u29f8b"],
    ["/a\uff0fb"],
    ["/a\uff3cb"],
    ["/a\u2216b"],
    ["/a\ufe68b"],
    ["/a\ud800"],
    ["/\udc00a"],
    [`/${"a".repeat(MAX_SEGMENT_BYTES + 1)}`],
    [`/${"\u{1f600}".repeat(64)}`],
    [`/${"a/".repeat(MAX_PATH_BYTES / 2)}a`],
    [`/${"é/".repeat(MAX_PATH_BYTES / 3)}é`],
    ["x".repeat(1_000_000)],
    ["%25".repeat(700)],
  ])("%j", (text) => {
    expect(parsePath(text)).toEqual({ ok: false, reason: expect.stringMatching(/\w/) });
    expect(parseDirectory(text).ok).toBe(["", "/", ".", "./", "/a/", "/a/."].includes(text));
  });
});

describe("whatever is accepted", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "/",
      ".",
      "..",
      "%2e",
      "%2f",
      "%25",
      "2e",
      "\\",
      "\u2025",
      "\uff0e",
      "\u2215",
      "\u0000",
      "a",
      "é",
      " ",
      "\u200b",
    ),
    fc.string({ unit: "binary", maxLength: 3 }),
  );

  it("is absolute, well-formed, within the limits, without dot segments, and stays itself when parsed again", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const parsed = parsePath(pieces.join(""));
        if (!parsed.ok) return;
        const { path } = parsed;
        expect(parsePath(path)).toEqual(parsed);
        expect(path.startsWith("/") && path.isWellFormed() && path.normalize("NFC") === path).toBe(true);
        expect(/\/\/|\/$|\\|\p{Cc}/u.test(path)).toBe(false);
        expect(path.split("/").some((segment) => segment === "." || segment === "..")).toBe(false);
        expect(new TextEncoder().encode(path).length).toBeLessThanOrEqual(MAX_PATH_BYTES);
        // A reader that folds compatibility forms or decodes percent signs finds no way out either.
        let decoded: string = path;
        for (let round = 0; round < 4; round++)
          decoded = decoded.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
        expect(decoded.split(/[/\\]/).includes("..")).toBe(false);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("a directory path", () => {
  it.each([
    ["", "/"],
    ["/", "/"],
    [".", "/"],
    ["a", "/a/"],
    ["/a/b/", "/a/b/"],
  ])("%j is %j", (text, path) => {
    expect(parseDirectory(text)).toEqual({ ok: true, path });
  });
});

describe("hango's own directories are read-only", () => {
  it.each([
    ["/conversation_history/s.md", true],
    ["/conversation_history", true],
    ["//large_tool_results/./x", true],
    ["/large_tool_results/a/b", true],
    ["/conversation_history.md", false],
    ["/a/conversation_history/s.md", false],
  ])("%j: %j", (text, expected) => {
    const parsed = parsePath(text);
    expect(parsed.ok && isReadOnly(parsed.path)).toBe(expected);
  });
});

it("paths are ordered by code point, as UTF-8 bytes are", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
      expect(Math.sign(comparePaths(a, b))).toBe(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))));
    }),
  );
});
