/**
 * Skills: instructions for kinds of work, a folder of the session's files each. The model is shown their names and what they are for, and
 * loads the text of one when it needs it. The list is read at the start of a turn and stands behind the cache mark (V8).
 */
import { z } from "zod";
import type { FileSystem } from "../files/filesystem.ts";
import { parseDirectory, parsePath } from "../files/path.ts";
import { formatCount } from "../files/text-cut.ts";
import { inParallel } from "../protocol/in-parallel.ts";
import type { Middleware, RunContext, SkillsFound } from "../protocol/middleware.ts";
import {
  isSkillName,
  LOAD_SKILL,
  MAX_SKILL_BYTES,
  MAX_SKILLS,
  type ReadSkillFile,
  readSkillFile,
  SKILLS_DIRECTORY,
  skillPath,
} from "../protocol/skill-file.ts";
import { defineTool, type ToolResult, toolError } from "../protocol/tool.ts";

/** What is read of each SKILL.md for the list, in bytes: four times the longest description in the widest script. */
const HEAD_BYTES = 16_384;

/** Reads under way at a time. */
const AT_ONCE = 4;

/** Most text of the list, in characters: it is part of every request. */
const MAX_LIST_CHARS = 32_768;

/** Folders that are looked at, those without a skill included. */
const MAX_FOLDERS = 200;

/** Files beside SKILL.md that the model is told of. */
const MAX_FILES_NAMED = 50;

/** A text over this share of the window is refused: in the newest messages it would leave no room (the keep budget of context C1). */
const MAX_WINDOW_SHARE = 0.25;

const GUIDE = `You have skills: instructions for kinds of work, each in a folder under ${SKILLS_DIRECTORY}. They are named here with what they are for.
When a task is of such a kind, call ${LOAD_SKILL} with the name before you begin, and follow what it says. Load a skill once: its text stays in this
conversation. Where a note says that a skill's text was left out, load it again before you go on following it, once; older notes about the same skill
are history then.`;

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

const readHead = async (files: FileSystem, name: string): Promise<ReadSkillFile> => {
  const path = parsePath(skillPath(name));
  if (!path.ok) return { ok: false, reason: path.reason };
  const range = { offsetBytes: 0, lengthBytes: HEAD_BYTES };
  const found = await files.read(path.path, { range, objectOnly: true });
  if (found === undefined) return { ok: false, reason: "is not there" };
  if (found.sizeBytes > MAX_SKILL_BYTES) return { ok: false, reason: tooLarge(found.sizeBytes) };
  return named(readSkillFile(decode(found.bytes)), name);
};

const tooLarge = (sizeBytes: number): string =>
  `has ${formatCount(sizeBytes)} bytes; at most ${formatCount(MAX_SKILL_BYTES)} are taken: move details into files beside it`;

/** A skill is called as its folder is; one that says otherwise would be listed under a name that loads nothing. */
const named = (read: ReadSkillFile, folder: string): ReadSkillFile =>
  read.ok && read.name !== null && read.name !== folder
    ? { ok: false, reason: `names itself ${JSON.stringify(read.name.slice(0, 80))}, which is not its folder's name` }
    : read;

/** The skills of a session, ordered by name. One list of the bucket where there are none. */
export const findSkills = async (files: FileSystem): Promise<SkillsFound> => {
  const directory = parseDirectory(SKILLS_DIRECTORY);
  if (!directory.ok) return { listed: [], skipped: [] };
  const folders = await files.folders(directory.path, MAX_FOLDERS);
  const names = folders.filter(isSkillName).slice(0, MAX_SKILLS);
  const heads = await inParallel(names, AT_ONCE, (name) => readHead(files, name));
  const reads = new Map(names.map((name, index) => [name, heads[index]]));
  const listed: { name: string; description: string }[] = [];
  const skipped: { path: string; reason: string }[] = [];
  let chars = 0;
  for (const folder of folders) {
    const read: ReadSkillFile = reads.get(folder) ?? {
      ok: false,
      reason: isSkillName(folder)
        ? `is one too many; at most ${MAX_SKILLS} skills are listed`
        : "is in a folder whose name is no skill's: lower-case letters and digits, joined by single hyphens",
    };
    const size = folder.length + (read.ok ? read.description.length : 0);
    if (!read.ok) skipped.push({ path: skillPath(folder), reason: read.reason });
    else if (chars + size > MAX_LIST_CHARS)
      skipped.push({
        path: skillPath(folder),
        reason: `does not fit: the list has at most ${MAX_LIST_CHARS} characters`,
      });
    else {
      chars += size;
      listed.push({ name: folder, description: read.description });
    }
  }
  return { listed, skipped };
};

const listText = ({ listed }: SkillsFound): string =>
  listed.map(({ name, description }) => `- ${name}: ${description}`).join("\n");

const available = ({ skills }: RunContext["state"]["private"]): string =>
  skills.listed.length === 0
    ? "There are no skills."
    : `Available skills: ${skills.listed.map(({ name }) => name).join(", ")}.`;

/** The folder and what else is in it, so that the model finds what the text refers to. */
const filesLine = async (files: FileSystem, name: string): Promise<string> => {
  const prefix = `${SKILLS_DIRECTORY}${name}/`;
  const { files: found } = await files.list({ prefix, limit: MAX_FILES_NAMED + 2 });
  const others = found.filter(({ path }) => path !== skillPath(name));
  const shown = others
    .slice(0, MAX_FILES_NAMED)
    .map(({ path, sizeBytes }) => `${path} (${formatCount(sizeBytes)} bytes)`);
  if (shown.length === 0) return "It has no other files.";
  const more = others.length > MAX_FILES_NAMED ? `, and more (ls ${JSON.stringify({ path: prefix })})` : "";
  return `Other files of it, for read_file where the text refers to them: ${shown.join(", ")}${more}.`;
};

export interface SkillsOptions {
  readonly files: FileSystem;
  readonly estimateTokens: (text: string) => number;
}

const load = async ({ files, estimateTokens }: SkillsOptions, run: RunContext, name: string): Promise<ToolResult> => {
  const path = isSkillName(name) ? parsePath(skillPath(name)) : undefined;
  const found = path?.ok === true ? await files.read(path.path, { objectOnly: true }) : undefined;
  if (found === undefined)
    return toolError(`There is no skill ${JSON.stringify(name.slice(0, 80))}. ${available(run.state.private)}`);
  const read: ReadSkillFile =
    found.sizeBytes > MAX_SKILL_BYTES
      ? { ok: false, reason: tooLarge(found.sizeBytes) }
      : named(readSkillFile(decode(found.bytes)), name);
  if (!read.ok) return toolError(`The skill cannot be loaded: ${skillPath(name)} ${read.reason}.`);
  const tokens = estimateTokens(read.body);
  const most = Math.floor(MAX_WINDOW_SHARE * run.windowTokens);
  if (tokens > most)
    return toolError(
      `The text of the skill has about ${formatCount(tokens)} tokens, and at most ${formatCount(most)} fit beside this conversation. Read what you need of it: read_file ${JSON.stringify({ file_path: skillPath(name) })}.`,
    );
  const head = `Skill ${JSON.stringify(name)}, from ${skillPath(name)}. ${await filesLine(files, name)}`;
  return { content: [head, "", read.body === "" ? "(The skill has no text.)" : read.body].join("\n") };
};

const inputSchema = z.strictObject({ name: z.string().describe("The skill's name, as listed.") });

const loadTool = (options: SkillsOptions, run: RunContext) =>
  defineTool({
    name: LOAD_SKILL,
    description: "Shows the instructions of a skill. Call it before you begin work that the skill is for.",
    input: inputSchema,
    idempotent: true,
    // A skill is followed whole; its size has its own bound.
    offload: false,
    run: ({ name }) => load(options, run, name.trim()),
  });

/** Lists the session's skills once a turn, as a late system block where there are any, and offers `load_skill` then. */
export const skillsMiddleware = (options: SkillsOptions): Middleware => ({
  name: "Skills",
  beforeTurn: async (run) => {
    const found = await findSkills(options.files);
    run.state.private.skills = found;
    if (found.listed.length > 0) run.state.private.volatile.set("skills", listText(found));
  },
  assemble: (draft, run) => {
    const list = run.state.private.volatile.get("skills");
    if (list === undefined) return;
    draft.system.push({ text: `${GUIDE}\n\n<skills>\n${list}\n</skills>` });
    draft.tools.push(loadTool(options, run));
  },
});
