/**
 * Skills that were loaded, as the log has them, and the record of those whose text was lost (R5). Read from rows and rendered from the record,
 * so that no summariser can drop a name.
 */
import type { Seq } from "../protocol/ids.ts";
import type { ContentText, LogRow } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import { isSkillName, LOAD_SKILL } from "../protocol/skill-file.ts";
import { rowParts } from "./row-parts.ts";

/**
 * A text of at most so many characters is not clipped, and not named when it is lost: it costs little, and a summary can hold what it says
 * (R5). The same bound for both, so that whatever was replaced by a marker is in the record later.
 */
export const LOST_BODY_CHARS = 5_000;

/** Names of lost skills that the record keeps, newest first (R5). */
export const MAX_LOST_SKILLS = 20;

/** The call that loads a skill again. */
export const reloadCall = (name: string): string => `${LOAD_SKILL} ${JSON.stringify({ name })}`;

/**
 * The one marker of a skill whose text was lost, with the call that loads it again (R5): the same in a clipped, a demoted and a covered
 * place. Stored revisions render it anew, so another wording is another kind of fact (V2).
 */
export const skillMarker = (name: string): string =>
  `[skill ${JSON.stringify(name)}: its text was left out to make room. To follow it again, first call ${reloadCall(name)}. Where that was done after this message, this note is history.]`;

/** A skill whose text is in the log: a call of `load_skill` that was answered with it. */
export interface SkillLoad {
  readonly callId: string;
  readonly name: string;
  /** Of the row that holds the text. */
  readonly seq: Seq;
  readonly text: string;
}

/** What the view shows of a skill that was loaded (R5). */
export interface SkillFact {
  readonly callId: string;
  readonly name: string;
  /** Of the row with the result. */
  readonly seq: Seq;
  /** `whole` also where its row is clipped; `marker` for the note in its place. */
  readonly shown: "whole" | "marker";
  /** Of a text that is not named when it is lost: shown whole, it takes no name out either. Absent in revisions from before it was told. */
  readonly isShort?: true;
}

/** A skill whose text is no longer in the view (R5). */
export interface LostSkill {
  readonly name: string;
  /** The row that held the text last. */
  readonly seq: Seq;
}

const nameIn = (input: unknown): string | null => {
  if (typeof input !== "object" || input === null || !("name" in input)) return null;
  const { name } = input;
  // A name that reads like a secret is said nowhere (S6), and no folder is called so.
  return typeof name === "string" && isSkillName(name) && redact(name).text === name ? name : null;
};

const failedIds = (content: ContentText): ReadonlySet<string> => {
  if (!content.includes('"is_error"')) return new Set();
  const blocks: unknown = JSON.parse(content);
  return new Set(
    (Array.isArray(blocks) ? blocks : []).flatMap(
      (block: { readonly is_error?: unknown; readonly tool_use_id?: unknown }) =>
        block.is_error === true ? [String(block.tool_use_id)] : [],
    ),
  );
};

/** The skills that were loaded in these rows, in the order of the log. Rows that hold none are not parsed. */
export const skillLoads = (rows: readonly LogRow[]): readonly SkillLoad[] => {
  const loads: SkillLoad[] = [];
  let called = new Map<string, string>();
  for (const row of rows) {
    if (row.role === "assistant") {
      called = new Map();
      if (!row.content.includes(`"${LOAD_SKILL}"`)) continue;
      for (const part of rowParts(row)) {
        const name = part.kind === "call" && part.name === LOAD_SKILL ? nameIn(part.input) : null;
        if (part.kind === "call" && name !== null) called.set(part.id, name);
      }
    } else if (called.size > 0) {
      const failed = failedIds(row.content);
      for (const part of rowParts(row)) {
        const name = part.kind === "result" ? called.get(part.callId) : undefined;
        if (part.kind !== "result" || name === undefined || failed.has(part.callId)) continue;
        loads.push({ callId: part.callId, name, seq: row.seq, text: part.texts.join("\n") });
      }
      called = new Map();
    }
  }
  return loads;
};

/** By name the newest, newest first, within the cap. */
export const newestLost = (lost: readonly LostSkill[]): readonly LostSkill[] => {
  const byName = new Map<string, LostSkill>();
  for (const each of lost) if ((byName.get(each.name)?.seq ?? 0) < each.seq) byName.set(each.name, each);
  return [...byName.values()].sort((a, b) => b.seq - a.seq || (a.name < b.name ? -1 : 1)).slice(0, MAX_LOST_SKILLS);
};

/** The skills that are lost when these rows are covered (R5). Read from the log, whatever the view made of them. */
export const lostSkills = (rows: readonly LogRow[]): readonly LostSkill[] =>
  newestLost(skillLoads(rows).flatMap(({ name, seq, text }) => (text.length > LOST_BODY_CHARS ? [{ name, seq }] : [])));

/** The record of a base joined with that of newly covered rows. Absent in generations that were made before there were skills. */
export const mergedLost = (
  base: readonly LostSkill[] | undefined,
  next: readonly LostSkill[] | undefined,
): readonly LostSkill[] => newestLost([...(base ?? []), ...(next ?? [])]);
