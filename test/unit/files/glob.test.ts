import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileGlob } from "../../../src/files/glob.ts";
import { parseDirectory } from "../../../src/files/path.ts";

const directory = (text: string) => {
  const parsed = parseDirectory(text);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.path;
};
const matches = (pattern: string, path: string, base = "/") => {
  const glob = compileGlob(pattern, directory(base));
  if (!glob.ok) throw new Error(glob.reason);
  return glob.test(path);
};

describe("a glob", () => {
  it.each([
    ["*.ts", "/a.ts", true],
    ["*.ts", "/src/a.ts", true],
    ["*.ts", "/src/a.tsx", false],
    ["/*.ts", "/a.ts", true],
    ["/*.ts", "/src/a.ts", false],
    ["./*.ts", "/a.ts", true],
    ["src/*.ts", "/src/a.ts", true],
    ["src/*.ts", "/src/b/a.ts", false],
    ["src/*.ts", "/x/src/a.ts", false],
    ["src/**/*.ts", "/src/a.ts", true],
    ["src/**/*.ts", "/src/b/c/a.ts", true],
    ["**/b/**", "/a/b/c/d", true],
    ["**/b/**", "/b/c", true],
    ["**/b/**", "/ab/c", false],
    ["src/", "/src/a/b", true],
    ["**", "/a/b", true],
    ["a**c", "/abc", true],
    ["?.md", "/a.md", true],
    ["?.md", "/ab.md", false],
    ["?.md", "/\u{1f600}.md", true],
    ["[ab].md", "/a.md", true],
    ["[!ab].md", "/a.md", false],
    ["[^ab].md", "/c.md", true],
    ["[a-c]x", "/bx", true],
    ["/a[!b]c", "/a/c", false],
    ["/a[+-9]c", "/a/c", false],
    ["[]]x", "/]x", true],
    ["*.{js,ts}", "/a.ts", true],
    ["*.{js,ts}", "/a.css", false],
    ["{a,b/{c,d}}/x", "/b/d/x", true],
    ["{a,}b", "/b", true],
    ["a.b", "/axb", false],
    ["a+(b)|c$", "/a+(b)|c$", true],
    ["\\*\\{.md", "/*{.md", true],
    ["*", "/.hidden", true],
    ["*.TS", "/a.ts", false],
  ])("%j on %j: %j", (pattern, path, expected) => {
    expect(matches(pattern, path)).toBe(expected);
  });

  it("is about paths below its directory, unless it begins with a slash", () => {
    expect([
      matches("*.ts", "/src/a.ts", "/src"),
      matches("*.ts", "/lib/a.ts", "/src"),
      matches("b/*.ts", "/src/b/a.ts", "/src"),
      matches("/src/*.ts", "/src/a.ts", "/src"),
      matches("/lib/*.ts", "/lib/a.ts", "/src"),
    ]).toEqual([true, false, true, true, false]);
  });

  it.each([
    ["[a", 'no "]"'],
    ["{a,b", 'no "}"'],
    ["{".repeat(12), "nested"],
    ["x".repeat(1_001), "at most 1000"],
  ])("%j is refused with a reason that names %j", (pattern, words) => {
    expect(compileGlob(pattern, directory("/"))).toEqual({ ok: false, reason: expect.stringContaining(words) });
  });

  it("takes any other text as it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1, maxLength: 20 }), (name) => {
        if (name.includes("/")) return;
        const escaped = [...name].map((char) => `\\${char}`).join("");
        expect([matches(escaped, `/d/${name}`), matches(escaped, `/d/${name}x`)]).toEqual([true, false]);
      }),
    );
  });

  it("of many stars takes no time on a long path", () => {
    expect(matches(`${"*a".repeat(100)}b`, `/${"a".repeat(799)}`)).toBe(false);
    expect(matches(`${"**/a/".repeat(40)}b`, `/${"a/".repeat(399)}a`)).toBe(false);
  });
});
