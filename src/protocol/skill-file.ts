/**
 * The file of a skill, `/skills/{name}/SKILL.md`: YAML front matter with `name` and `description`, then the instructions. Read and
 * written here alone, so that what a session is given and what it finds mean the same (docs/decisions/0012).
 */

/** The tool that shows a skill's instructions. */
export const LOAD_SKILL = "load_skill";

/** Where skills are kept, a folder for each. */
export const SKILLS_DIRECTORY = "/skills/";

/** Skills of a session that are looked at: each is a read at the start of every turn, and a line of every request. */
export const MAX_SKILLS = 50;

/** Longest name and description, in characters: the Agent Skills format's own limits. */
export const MAX_SKILL_NAME_CHARS = 64;
export const MAX_DESCRIPTION_CHARS = 1_024;

/** Largest SKILL.md, in bytes: its instructions are shown whole or not at all, and stand in every request after that. */
export const MAX_SKILL_BYTES = 65_536;

/** A skill's name, which is its folder's: lower-case letters, digits and single hyphens (Agent Skills format). */
const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;

export const isSkillName = (text: string): boolean => text.length <= MAX_SKILL_NAME_CHARS && NAME.test(text);

export const skillPath = (name: string): string => `${SKILLS_DIRECTORY}${name}/SKILL.md`;

/** The file of a skill. Its strings are quoted as JSON has them, which YAML reads as it is. */
export const skillFile = (skill: {
  readonly name: string;
  readonly description: string;
  readonly body: string;
}): string =>
  [
    "---",
    `name: ${JSON.stringify(skill.name)}`,
    `description: ${JSON.stringify(skill.description)}`,
    "---",
    "",
    skill.body.trimEnd(),
    "",
  ].join("\n");

export type ReadSkillFile =
  | {
      readonly ok: true;
      /** Null where the front matter has none. */
      readonly name: string | null;
      /** On one line. */
      readonly description: string;
      /** What follows the front matter. */
      readonly body: string;
    }
  /** The reason continues "SKILL.md ...". */
  | { readonly ok: false; readonly reason: string };

const refused = (reason: string): ReadSkillFile => ({ ok: false, reason });

const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

const KEY = /^([A-Za-z_][\w-]*):(?:[ \t]+(.*))?$/;

/** The lines of each top-level key, comments between them left out; a line that belongs to no key is returned. */
const entriesOf = (lines: readonly string[]): Map<string, string[]> | string => {
  const entries = new Map<string, string[]>();
  let last: string[] | undefined;
  for (const line of lines) {
    const [, key, value = ""] = KEY.exec(line) ?? [];
    if (key !== undefined) {
      if (entries.has(key)) return `gives "${key}" twice`;
      last = [value];
      entries.set(key, last);
    } else if (line.trim() === "" || /^[ \t-]/.test(line)) last?.push(line);
    else if (!line.startsWith("#"))
      return `has a line in its front matter that is not "key: value": ${line.slice(0, 60)}`;
  }
  return entries;
};

const BLOCK = /^[|>][-+1-9]{0,2}(?:[ \t]+#.*)?$/;
const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  '"': '"',
  "/": "/",
  "\\": "\\",
  " ": " ",
};

/** The inside of a double-quoted text, or undefined where an escape is none that JSON and YAML share. */
const unescaped = (text: string): string | undefined => {
  let known = true;
  const value = text.replace(/\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))/gs, (_, wide, narrow, single) => {
    const code: string | undefined = wide ?? narrow;
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16));
    const plain = ESCAPES[String(single)];
    if (plain === undefined) known = false;
    return plain ?? "";
  });
  return known ? value.toWellFormed() : undefined;
};

/**
 * A text value: plain, quoted, or a block (`>` and `|` alike, since it is put on one line anyway).
 * @returns undefined for a value that is no text
 */
const textOf = ([first = "", ...more]: readonly string[]): string | undefined => {
  const head = first.trim();
  if (BLOCK.test(head)) return oneLine(more.join("\n"));
  const whole = oneLine([head, ...more].join("\n"));
  const [, double] = /^"((?:[^"\\]|\\.)*)"(?: #.*)?$/s.exec(whole) ?? [];
  if (double !== undefined) return unescaped(double);
  const [, single] = /^'((?:[^']|'')*)'(?: #.*)?$/s.exec(whole) ?? [];
  if (single !== undefined) return single.replaceAll("''", "'");
  // Lists, maps, anchors, tags and what YAML keeps for itself; and a quote that does not end.
  if (/^[[\]{}&*!|>%@`"']/.test(whole) || whole.startsWith("- ")) return undefined;
  return whole.replace(/(?:^| )#.*$/, "").trim();
};

/**
 * Reads a SKILL.md, or as much of its beginning as holds the front matter. Only `name` and `description` are read; other keys, whatever
 * they hold, are passed over.
 */
export const readSkillFile = (text: string): ReadSkillFile => {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\r|\n/);
  if (lines[0]?.trimEnd() !== "---") return refused('does not begin with front matter (a line "---")');
  const end = lines.findIndex((line, at) => at > 0 && /^(?:---|\.\.\.)[ \t]*$/.test(line));
  if (end < 0) return refused('has front matter that no line "---" ends');
  const entries = entriesOf(lines.slice(1, end));
  if (typeof entries === "string") return refused(entries);
  const nameLines = entries.get("name");
  const name = nameLines === undefined ? null : textOf(nameLines);
  if (name === undefined) return refused('has a "name" that is no text');
  const descriptionLines = entries.get("description");
  const value = descriptionLines === undefined ? "" : textOf(descriptionLines);
  if (value === undefined) return refused('has a "description" that is no text');
  const description = oneLine(value);
  if (description === "") return refused('has no "description"');
  if (description.length > MAX_DESCRIPTION_CHARS)
    return refused(
      `has a "description" of ${description.length} characters; at most ${MAX_DESCRIPTION_CHARS} are taken`,
    );
  return {
    ok: true,
    name: name === "" ? null : name,
    description,
    body: lines
      .slice(end + 1)
      .join("\n")
      .trim(),
  };
};
