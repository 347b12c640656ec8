import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  arrayElements,
  jsonDepth,
  objectMembers,
  RawJson,
  repairSurrogates,
  stringifyWith,
  stringLeaves,
} from "../../../src/protocol/json-text.ts";

/** JSON text of any value, with varying space. */
const jsonText = (value: fc.Arbitrary<unknown>) =>
  fc.tuple(value, fc.constantFrom(undefined, 1, "\t")).map(([json, space]) => JSON.stringify(json, null, space));

const anyValue = fc.jsonValue({ stringUnit: "binary", maxDepth: 4 });

describe("json-text finds pieces of JSON without parsing it (V9)", () => {
  it("finds the elements of an array: each parses to the array's element", () => {
    fc.assert(
      fc.property(jsonText(fc.array(anyValue)), (text) => {
        const found = arrayElements(text).map(({ start, end }) => JSON.parse(text.slice(start, end)));
        expect(found).toEqual(JSON.parse(text));
      }),
    );
  });

  it("finds the members of an object: keys, and the place of each value", () => {
    fc.assert(
      fc.property(jsonText(fc.dictionary(fc.string({ unit: "binary" }), anyValue)), (text) => {
        const found = objectMembers(text).map(({ key, start, end }) => [key, JSON.parse(text.slice(start, end))]);
        expect(found).toEqual(Object.entries(JSON.parse(text) as object));
        for (const { key, keyStart } of objectMembers(text))
          expect(text.slice(keyStart).startsWith(JSON.stringify(key))).toBe(true);
      }),
    );
  });

  it("finds the strings at any depth that are no keys, in order", () => {
    const strings = (value: unknown): readonly string[] =>
      typeof value === "string"
        ? [value]
        : typeof value === "object" && value !== null
          ? Object.values(value).flatMap(strings)
          : [];
    fc.assert(
      fc.property(jsonText(anyValue), jsonText(anyValue), fc.nat(12), (value, other, minLength) => {
        const text = `[${other},${value},${other}]`;
        const start = other.length + 2;
        const found = stringLeaves(text, { start, end: start + value.length }, minLength);
        const all = strings(JSON.parse(value)).filter((each) => JSON.stringify(each).length >= minLength);
        expect(found.map((leaf) => JSON.parse(text.slice(leaf.start, leaf.end)))).toEqual(all);
      }),
    );
  });

  it("leaves what a parse would change: number forms, key order, duplicates", () => {
    const text = ' {"2":1.0, "1":12345678901234567890,"1":-0e+5 ,"a\\u0062":"\\/\\\\" } ';
    expect(objectMembers(text).map(({ key, start, end }) => [key, text.slice(start, end)])).toEqual([
      ["2", "1.0"],
      ["1", "12345678901234567890"],
      ["1", "-0e+5"],
      ["ab", '"\\/\\\\"'],
    ]);
  });

  it("answers nothing for an empty array and an empty object", () => {
    expect(arrayElements(" [ ] ")).toEqual([]);
    expect(objectMembers("{}")).toEqual([]);
  });

  it.each(["", "{}", '"[]"', "[1", "[1 2]", '["a]', "[,]", "[[]"])(
    "refuses %j as an array with a SyntaxError",
    (text) => {
      expect(() => arrayElements(text)).toThrow(SyntaxError);
    },
  );

  it.each(["", "[]", "{1:2}", '{"a" 1}', '{"a":', '{"a":1,}'])("refuses %j as an object with a SyntaxError", (text) => {
    expect(() => objectMembers(text)).toThrow(SyntaxError);
  });

  it("takes time in proportion to the text, backslashes and brackets included", () => {
    const text = `["${"\\\\".repeat(1_000_000)}","${'\\"'.repeat(1_000_000)}",${"[".repeat(200_000)}${"]".repeat(200_000)}]`;
    expect(arrayElements(text).length).toBe(3);
    expect(jsonDepth(text)).toBe(200_001);
  });
});

describe("jsonDepth", () => {
  it.each([
    ["1", 0],
    ['"[[["', 0],
    ["[]", 1],
    ['{"a":[{"b":"}"},[]]}', 3],
    ['["\\"[", [[[]]]]', 4],
    ['[["unterminated', 2],
  ])("of %j is %d", (text, depth) => {
    expect(jsonDepth(text)).toBe(depth);
  });
});

describe("repairSurrogates", () => {
  const wellFormed = (value: unknown): unknown => {
    if (typeof value === "string") return value.toWellFormed();
    if (Array.isArray(value)) return value.map(wellFormed);
    return value;
  };
  const unit = fc.constantFrom(
    "\ud83d",
    "\ude00",
    "\\ud83d",
    "\\ude00",
    "\\uD83D",
    "\\uDE00",
    "\\\\",
    "\\n",
    "ud800",
    "a",
    "\u{1f600}",
    "\\u00e9",
  );

  it("means the same as repairing the parsed strings", () => {
    fc.assert(
      fc.property(fc.array(fc.array(unit).map((units) => units.join(""))), (strings) => {
        const text = `[${strings.map((string) => `"${string}"`).join(",")}]`;
        const repaired = repairSurrogates(text);
        expect(repaired.isWellFormed()).toBe(true);
        expect(JSON.parse(repaired)).toEqual(wellFormed(JSON.parse(text)));
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ['"\\ud83d\\ude00 \u{1f600} \\\\ud800 \\u0000"', '"\\ud83d\\ude00 \u{1f600} \\\\ud800 \\u0000"'],
    ['"\\ud83d"', '"\\ufffd"'],
    ['"\\uDE00x"', '"\\ufffdx"'],
    ['"\ud83d"', '"\ufffd"'],
    ['"\ud83d\\ude00"', '"\\ud83d\\ude00"'],
    ['"\\ud83d\ude00"', '"\\ud83d\\ude00"'],
    ['"\\\\\\ud83d"', '"\\\\\\ufffd"'],
    ['{"\\ud83d\\ud83d\\ude00": 1.0}', '{"\\ufffd\\ud83d\\ude00": 1.0}'],
  ])("of %j is %j", (text, repaired) => {
    expect(repairSurrogates(text)).toBe(repaired);
  });

  it("takes time in proportion to the text", () => {
    const text = `"${"\\\\\\n".repeat(700_000)}\\ud800"`;
    expect(repairSurrogates(text)).toBe(`"${"\\\\\\n".repeat(700_000)}\\ufffd"`);
  });
});

describe("stringifyWith", () => {
  it("writes what JSON.stringify writes when nothing is raw", () => {
    fc.assert(
      fc.property(fc.anything({ withDate: true, withNullPrototype: true, withBoxedValues: true }), (value) => {
        const expected = JSON.stringify(value);
        if (expected === undefined) expect(() => stringifyWith(value)).toThrow(TypeError);
        else expect(stringifyWith(value)).toBe(expected);
      }),
    );
  });

  it("puts raw JSON in verbatim, wherever it stands", () => {
    const raw = new RawJson('{"2":1.0, "1":"$&"}');
    expect(stringifyWith({ a: raw, b: [raw, undefined], c: undefined, d: { e: raw } })).toBe(
      '{"a":{"2":1.0, "1":"$&"},"b":[{"2":1.0, "1":"$&"},null],"d":{"e":{"2":1.0, "1":"$&"}}}',
    );
  });
});
