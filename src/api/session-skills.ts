/** The skills that a session is created with. They become files of the session, which are the only place where it has skills. */
import { z } from "@hono/zod-openapi";
import {
  isSkillName,
  MAX_DESCRIPTION_CHARS,
  MAX_SKILL_BYTES,
  MAX_SKILLS,
  SKILLS_DIRECTORY,
  skillFile,
  skillPath,
} from "../protocol/skill-file.ts";
import type { SessionFile } from "../store/pending-files.ts";
import { parsePath } from "../turns/session-files.ts";
import { boundedText } from "./text.ts";

/** Most files of a skill beside its SKILL.md, and their size: what is larger is uploaded as a file. */
const MAX_FILES = 50;
const MAX_FILE_CHARS = 262_144;

/** Most text of all skills together, in bytes of UTF-8: it is kept in the session's row until it is written. */
const MAX_TOTAL_BYTES = 1_048_576;

const bytesOf = (text: string): number => new TextEncoder().encode(text).byteLength;

/** Why a path cannot be that of a skill's file, or null. */
const refusedPath = (path: string): string | null => {
  if (path.startsWith("/")) return "must be relative to the skill's folder";
  const parsed = parsePath(`${SKILLS_DIRECTORY}x/${path}`);
  if (!parsed.ok) return parsed.reason;
  if (parsed.path !== `${SKILLS_DIRECTORY}x/${path}`) return "must be plain: no empty name, and no `.`";
  return path.toLowerCase() === "skill.md" ? "is made of `name`, `description` and `body`" : null;
};

const files = z
  .record(z.string(), boundedText(MAX_FILE_CHARS))
  .superRefine((given, context) => {
    const paths = Object.keys(given);
    if (paths.length > MAX_FILES) context.addIssue({ code: "custom", message: `at most ${MAX_FILES} files` });
    for (const path of paths.slice(0, MAX_FILES)) {
      const message = refusedPath(path);
      if (message !== null) context.addIssue({ code: "custom", path: [path], message });
    }
  })
  .openapi({
    description: "Text files beside SKILL.md, by their path in the skill's folder.",
    example: { "references/regions.md": "# Regions" },
  });

const skill = z
  .strictObject({
    name: z
      .string()
      .refine(isSkillName, "expected 1 to 64 lower-case letters and digits, joined by single hyphens")
      .openapi({ example: "refunds" }),
    description: boundedText(MAX_DESCRIPTION_CHARS, 1)
      .refine((text) => text.trim() !== "", "must not be blank")
      .openapi({
        description: "What the skill does and when to use it: this is what the model is shown in every request.",
      }),
    body: boundedText(MAX_SKILL_BYTES).openapi({
      description: "The instructions, in Markdown: what the model is shown when it loads the skill.",
    }),
    files: files.optional(),
  })
  .superRefine((given, context) => {
    const sizeBytes = bytesOf(skillFile(given));
    if (sizeBytes <= MAX_SKILL_BYTES) return;
    const message = `makes a SKILL.md of ${sizeBytes} bytes; at most ${MAX_SKILL_BYTES} are taken: put details into \`files\``;
    context.addIssue({ code: "custom", path: ["body"], message });
  })
  .openapi("Skill");

type Skill = z.infer<typeof skill>;

/** The files that skills are kept as: `/skills/{name}/SKILL.md`, and those beside it. */
export const skillFiles = (skills: readonly Skill[]): readonly SessionFile[] =>
  skills.flatMap((given) => [
    { path: skillPath(given.name), text: skillFile(given) },
    ...Object.entries(given.files ?? {}).map(([path, text]) => ({
      path: `${SKILLS_DIRECTORY}${given.name}/${path}`,
      text,
    })),
  ]);

/** The `skills` of a request. */
export const skillsSchema = z
  .array(skill)
  .max(MAX_SKILLS)
  .superRefine((skills, context) => {
    const seen = new Set<string>();
    skills.forEach(({ name }, index) => {
      if (seen.has(name)) context.addIssue({ code: "custom", path: [index, "name"], message: "is used twice" });
      seen.add(name);
    });
    const sizeBytes = skillFiles(skills).reduce((sum, { text }) => sum + bytesOf(text), 0);
    if (sizeBytes > MAX_TOTAL_BYTES) {
      const message = `have ${sizeBytes} bytes together; at most ${MAX_TOTAL_BYTES} are taken: upload larger files to /skills/`;
      context.addIssue({ code: "custom", message });
    }
  })
  .openapi({
    description:
      "Instructions for kinds of work, which the model loads when it needs them. Written as files under `/skills/`, and changed there.",
  });
