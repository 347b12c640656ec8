import { describe, expect, test } from "vitest";
import { findConstraints, findIdentifiers } from "../../../src/context/identifiers.ts";

const found = (text: string): readonly string[] => {
  const all: string[] = [];
  findIdentifiers(text, new Map(), (identifier, kind) => all.push(`${kind} ${identifier}`));
  return all;
};

describe("findIdentifiers (S2)", () => {
  test.each([
    ["see /home/dev/app/src/main.ts:42:7.", ["path /home/dev/app/src/main.ts"]],
    ["`../types/scenario.js` and ./lib/y", ["path ../types/scenario.js", "path ./lib/y"]],
    ["core/session-manager.ts, package.json", ["path core/session-manager.ts", "path package.json"]],
    ["open C:\\Users\\dev\\new.txt now", ["path C:\\Users\\dev\\new.txt"]],
    ["(https://example.test/a?b=c&d=1#e).", ["url https://example.test/a?b=c&d=1#e"]],
    ["id 550e8400-e29b-41d4-a716-446655440000", ["uuid 550e8400-e29b-41d4-a716-446655440000"]],
    ["commit 83612f683e7a", ["hash 83612f683e7a"]],
    ["order #W2378156 of mia_li_3668, flight HAT018", ["id #W2378156", "id mia_li_3668", "id HAT018"]],
    ["number 3377618313, PROJ-481", ["id 3377618313", "id PROJ-481"]],
    ["TypeError: x, ENOENT, TS2345", ["error TypeError", "error ENOENT", "error TS2345"]],
    ["exit code 137, status 404", ["error code 137", "error status 404"]],
    ["this.setFilter(claude_code_log)", ["code setFilter", "code claude_code_log"]],
    ["run it --no-verify v2.14.0-rc.1", ["code --no-verify", "version v2.14.0-rc.1"]],
    ["due 2026-03-12 at 2026-03-12T10:00:00Z", ["date 2026-03-12", "date 2026-03-12T10:00:00Z"]],
    ["15 ms, 64MB, $1,200 and 25%", ["number 15 ms", "number 64MB", "number $1,200", "number 25%"]],
    ["mail a.b@example.test", ["email a.b@example.test"]],
    ["订单号W2378156已取消，见/src/a.ts文件", ["id W2378156", "path /src/a.ts"]],
    ['{\\"path\\":\\"/a/b/c.py\\",\\n\\"n\\":1}', ["path /a/b/c.py"]],
    ["KEY_NAME=/etc/app/conf.d", ["code KEY_NAME", "path /etc/app/conf.d"]],
  ])("S2: in %j", (text, expected) => {
    expect(found(text)).toEqual(expected);
  });

  test.each([
    "and/or, read/write, 1/2, n/a",
    "A sentence of plain words; nothing here is a name. Or is it?",
    "items.map(x => console.log(x))",
    "well-known state-of-the-art",
  ])("S2: prose holds none: %j", (text) => {
    expect(found(text)).toEqual([]);
  });

  test("S2: a word of a megabyte, and a megabyte of separators, take linear time", () => {
    for (const piece of ["a", "/", "-", ".", "a_", "0f", "x=", "\\", "a:/", "字"]) {
      // Quadratic work on so much would outlast the test's time limit.
      expect(() => found(piece.repeat(Math.ceil(1_000_000 / piece.length))), piece).not.toThrow();
    }
  });
});

describe("findConstraints (S2)", () => {
  test("S2: sentences that demand or forbid come back verbatim, others do not", () => {
    expect(
      findConstraints(
        "Please look at it. Never drop v1.2 columns before 12 March! Thanks.\n必须使用 Postgres。 It is fine",
      ),
    ).toEqual(["Never drop v1.2 columns before 12 March!", "必须使用 Postgres。"]);
  });
});
