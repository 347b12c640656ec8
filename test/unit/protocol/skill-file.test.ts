import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isSkillName, MAX_DESCRIPTION_CHARS, readSkillFile, skillFile } from "../../../src/protocol/skill-file.ts";

const file = (...frontMatter: readonly string[]) => ["---", ...frontMatter, "---", "# Do it", "Step 1."].join("\n");
const described = (...lines: readonly string[]) => {
  const read = readSkillFile(file("name: refunds", ...lines));
  return read.ok ? read.description : read;
};

describe("a SKILL.md", () => {
  it("is read: name, description and the text behind the front matter", () => {
    expect(readSkillFile(file("name: refunds", "description: Refund an order."))).toEqual({
      ok: true,
      name: "refunds",
      description: "Refund an order.",
      body: "# Do it\nStep 1.",
    });
  });

  it.each([
    ["plain", ["description: Refund an order: when asked # not this"], "Refund an order: when asked"],
    ["plain over lines", ["description: Refund", "  an order", "", "  when asked"], "Refund an order when asked"],
    ["double-quoted", ['description: "Say \\"no\\"\\n\\u00e4 # this" # not this'], 'Say "no" ä # this'],
    ["single-quoted", ["description: 'It''s # this'"], "It's # this"],
    ["folded", ["description: >-", "  Refund", "  an order", "license: MIT"], "Refund an order"],
    ["literal", ["description: |", "  Refund: yes", "", "  # an order"], "Refund: yes # an order"],
    ["folded, empty line first", ["description: >", "", "  Refund"], "Refund"],
  ])("may have a description that is %s", (_kind, lines, expected) => {
    expect(described(...lines)).toBe(expected);
  });

  it("may have other keys of any shape, comments, and line ends of any system", () => {
    const text = file(
      "# a comment",
      "name: refunds",
      "metadata:",
      "  team: billing",
      "  description: not this",
      "allowed-tools:",
      "- Read",
      "- Write",
      "description: This.",
    );
    for (const given of [text, text.replaceAll("\n", "\r\n"), `\uFEFF${text}`])
      expect(readSkillFile(given)).toMatchObject({ ok: true, name: "refunds", description: "This." });
  });

  it.each([
    ["no front matter", "# Refunds", 'does not begin with front matter (a line "---")'],
    ["an empty file", "", 'does not begin with front matter (a line "---")'],
    ["front matter without an end", "---\nname: x\ndescription: y", 'has front matter that no line "---" ends'],
    ["no description", file("name: x"), 'has no "description"'],
    ["a blank description", file('description: "  "'), 'has no "description"'],
    ["a list for a description", file("description: [a, b]"), 'has a "description" that is no text'],
    ["a quote without an end", file('description: "abc'), 'has a "description" that is no text'],
    ["a map for a name", file("name: {a: b}", "description: y"), 'has a "name" that is no text'],
    ["a key twice", file("name: x", "name: y", "description: y"), 'gives "name" twice'],
    [
      "a line that is none",
      file("description: y", "hello"),
      'has a line in its front matter that is not "key: value": hello',
    ],
    [
      "a long description",
      file(`description: ${"y".repeat(MAX_DESCRIPTION_CHARS + 1)}`),
      'has a "description" of 1025 characters; at most 1024 are taken',
    ],
  ])("with %s says what is wrong", (_what, text, reason) => {
    expect(readSkillFile(text)).toEqual({ ok: false, reason });
  });

  it("that hango writes reads as it was given, whatever stands in it", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1, maxLength: 200 }), fc.string(), (said, body) => {
        const description = said.toWellFormed();
        fc.pre(description.trim() !== "" && description.length <= MAX_DESCRIPTION_CHARS);
        const read = readSkillFile(skillFile({ name: "refunds", description, body }));
        expect(read).toMatchObject({ ok: true, name: "refunds", description: description.replace(/\s+/g, " ").trim() });
        expect(read.ok && read.body).toBe(
          body
            .split(/\r\n|\r|\n/)
            .join("\n")
            .trim(),
        );
      }),
    );
  });

  it("of any bytes is read or refused, never a failure", () => {
    const line = fc.constantFrom(
      "---",
      "name: a",
      "description: b",
      "description: >",
      "  x",
      '"',
      "# c",
      "\t",
      "- d",
      "'",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(line, fc.string())), (lines) => {
        expect(readSkillFile(lines.join("\n"))).toHaveProperty("ok");
      }),
    );
  });
});

describe("a skill's name", () => {
  it("is lower-case letters and digits joined by single hyphens", () => {
    expect(["refunds", "pdf-forms-2", "a", "0", "a".repeat(64)].filter((name) => !isSkillName(name))).toEqual([]);
    const none = ["", "A", "a_b", "-a", "a-", "a--b", "a/b", "..", "ä", "a b", "a\n", "a".repeat(65)];
    expect(none.filter(isSkillName)).toEqual([]);
  });
});
