/**
 * Skills in a view (R5). The text of a skill is an instruction, and half an instruction misleads: it is shown whole, or one canonical
 * marker stands in its place that says how to load it again. What was decided about each is a fact of the revision (V2).
 */
import type { Seq } from "../protocol/ids.ts";
import type { ContentText, LogRow } from "../protocol/messages.ts";
import { LOAD_SKILL } from "../protocol/skill-file.ts";
import { splice } from "../protocol/splice.ts";
import { isUserOriginated } from "./ask.ts";
import {
  LOST_BODY_CHARS,
  type LostSkill,
  newestLost,
  reloadCall,
  type SkillFact,
  type SkillLoad,
  skillLoads,
  skillMarker,
} from "./lost-skills.ts";
import { rowParts } from "./row-parts.ts";
import { toolResults } from "./tool-blocks.ts";
import { contains, type ViewState } from "./view-state.ts";

/** Newest messages whose skills are never clipped (R5). */
const PROTECTED_RECENT = 10;

/** Facts about rows that the view does not show any more are needed where a generation is voided; so many are kept. */
const MAX_UNSEEN_FACTS = 100;

const isNamed = (name: string, text: string): boolean => {
  for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + 1)) {
    if (!/[a-z0-9-]/.test(text[at - 1] ?? " ") && !/[a-z0-9-]/.test(text[at + name.length] ?? " ")) return true;
  }
  return false;
};

const saidIn = (row: LogRow): string =>
  rowParts(row)
    .map((part) => (part.kind === "text" ? part.text.toLowerCase() : ""))
    .join("\n");

/** Whether a text is one that is named when it is lost (R5). */
const isLong = ({ text }: SkillLoad): boolean => text.length > LOST_BODY_CHARS;

const factOf = (load: SkillLoad, shown: SkillFact["shown"]): SkillFact => ({
  callId: load.callId,
  name: load.name,
  seq: load.seq,
  shown,
  ...(isLong(load) ? {} : { isShort: true }),
});

/** The facts, those about rows that the view does not show bounded. @param visible seqs that it shows */
const bounded = (facts: readonly SkillFact[], visible: ReadonlySet<Seq>): readonly SkillFact[] => {
  const unseen = facts.filter(({ seq }) => !visible.has(seq)).slice(-MAX_UNSEEN_FACTS);
  return facts.filter((fact) => visible.has(fact.seq) || unseen.includes(fact));
};

const merged = (facts: readonly SkillFact[], news: readonly SkillFact[]): readonly SkillFact[] => {
  const ids = new Set(news.map(({ callId }) => callId));
  return [...facts.filter(({ callId }) => !ids.has(callId)), ...news].sort((a, b) => a.seq - b.seq);
};

/**
 * What is to become of the skills in rows that are about to be clipped (R5): one that was loaded in the newest 10 messages or in the kept
 * slice, or that a kept message of the user names, stays whole where it was loaded last; others are replaced by the marker, and so are
 * earlier copies. What is replaced already stays so.
 * @param visible the rows that the view shows, ascending
 * @param before rows with a lower seq are to be clipped
 * @param keptFrom the first row that a cut made now would keep; null where it would keep none before the newest
 */
export const clippedSkills = (
  visible: readonly LogRow[],
  view: Pick<ViewState, "skills">,
  before: Seq,
  keptFrom: () => Seq | null,
): { readonly facts: readonly SkillFact[]; readonly newlyMarked: readonly SkillLoad[] } => {
  const loads = skillLoads(visible);
  const old = loads.filter(({ seq }) => seq < before);
  if (old.length === 0) return { facts: view.skills, newlyMarked: [] };
  const marked = new Set(view.skills.filter(({ shown }) => shown === "marker").map(({ callId }) => callId));
  const newest = new Map(loads.map((load) => [load.name, load]));
  const recent = visible.at(-PROTECTED_RECENT)?.seq ?? before;
  const kept = Math.min(recent, before, keptFrom() ?? before);
  const said = visible.filter((row) => row.seq >= kept && isUserOriginated(row)).map(saidIn);
  const isWhole = (load: SkillLoad): boolean =>
    !isLong(load) ||
    (newest.get(load.name) === load && (load.seq >= kept || said.some((text) => isNamed(load.name, text))));
  const news = old.map((load) => factOf(load, marked.has(load.callId) || !isWhole(load) ? "marker" : "whole"));
  const isNew = new Set(
    news.flatMap(({ callId, shown }) => (shown === "marker" && !marked.has(callId) ? [callId] : [])),
  );
  return {
    facts: bounded(merged(view.skills, news), new Set(visible.map(({ seq }) => seq))),
    newlyMarked: old.filter(({ callId }) => isNew.has(callId)),
  };
};

/**
 * Facts for skills whose results are demoted (ladder step 4): protected or not, the marker stands for them, never the note of a size.
 * @returns the facts, and the calls that are no skills
 */
export const demotedSkills = (
  rows: readonly LogRow[],
  facts: readonly SkillFact[],
  callIds: readonly string[],
): { readonly facts: readonly SkillFact[]; readonly others: readonly string[] } => {
  const wanted = new Set(callIds);
  const loads = skillLoads(rows).filter(({ callId }) => wanted.has(callId));
  const skills = new Set(loads.map(({ callId }) => callId));
  return {
    facts:
      loads.length === 0
        ? facts
        : merged(
            facts,
            loads.map((load) => factOf(load, "marker")),
          ),
    others: callIds.filter((id) => !skills.has(id)),
  };
};

/** Facts for skills in rows that are hidden (ladder step 5), so that the handoff can name them. */
export const hiddenSkills = (hidden: readonly LogRow[], facts: readonly SkillFact[]): readonly SkillFact[] => {
  const loads = skillLoads(hidden).filter(isLong);
  return loads.length === 0
    ? facts
    : merged(
        facts,
        loads.map((load) => factOf(load, "marker")),
      );
};

/** Puts the marker in place of the skills of a row that its facts say so of; every other byte stays (V9). */
export const markSkills = (content: ContentText, facts: readonly SkillFact[]): ContentText => {
  const names = new Map(facts.flatMap(({ callId, name, shown }) => (shown === "marker" ? [[callId, name]] : [])));
  if (names.size === 0) return content;
  const edits = toolResults(content).flatMap(({ callId, body }) => {
    const name = names.get(callId);
    return name === undefined || body === null
      ? []
      : [{ start: body.start, end: body.end, by: JSON.stringify(skillMarker(name)) }];
  });
  return splice(content, edits);
};

/** The rows with the marker for every skill that the record will name: a summariser is not to paraphrase instructions (R5). */
export const rowsForSummary = (rows: readonly LogRow[]): readonly LogRow[] => {
  const lost = skillLoads(rows).filter(isLong);
  if (lost.length === 0) return rows;
  return rows.map((row) => {
    const facts = lost.filter(({ seq }) => seq === row.seq).map((load) => factOf(load, "marker"));
    return facts.length === 0 ? row : { ...row, content: markSkills(row.content, facts) };
  });
};

/** How much of a text, from an index on, is the beginning of a marker. */
const markerLength = (text: string, from: number, marker: string): number => {
  let length = 0;
  while (length < marker.length && text[from + length] === marker[length]) length++;
  return length;
};

const withoutMarker = (text: string, name: string): string => {
  const marker = skillMarker(name);
  const opening = marker.slice(0, marker.indexOf(" to make room"));
  let plain = "";
  let from = 0;
  for (let at = text.indexOf(opening); at !== -1; at = text.indexOf(opening, from)) {
    plain += `${text.slice(from, at)}(the skill ${name})`;
    from = at + markerLength(text, at, marker);
  }
  // What lost its beginning is no marker any more, but still names the call.
  return (plain + text.slice(from)).split(reloadCall(name)).join(`${LOAD_SKILL} of ${name}`);
};

/**
 * Takes markers out of what a model wrote, those too of which only a part is there: its input and its answer may be cut anywhere. They are rendered
 * from the record, once, and in no summary (R5, S1).
 */
export const withoutMarkers = (text: string, names: Iterable<string>): string =>
  [...new Set(names)].reduce(withoutMarker, text);

/**
 * What of the record is still lost when these rows are shown: a skill that was loaded again and is whole there is not. Only a text that is named
 * itself when it is lost takes a name out: once a shorter one went too, nothing would name the skill any more.
 */
export const stillLost = (
  lost: readonly LostSkill[] | undefined,
  kept: readonly LogRow[],
  view: Pick<ViewState, "skills">,
): readonly LostSkill[] => {
  if (lost === undefined || lost.length === 0) return [];
  const marked = new Set(view.skills.filter(({ shown }) => shown === "marker").map(({ callId }) => callId));
  const loads = skillLoads(kept).filter((load) => isLong(load) && !marked.has(load.callId));
  const whole = new Map(loads.map(({ name, seq }) => [name, seq]));
  return lost.filter(({ name, seq }) => (whole.get(name) ?? 0) < seq);
};

/**
 * The skills whose text is in a hidden row (ladder step 5), but for those that the record names and those that are known to be whole since, in a
 * text that would be named itself.
 */
export const lostInHidden = ({ skills, hidden, generation }: ViewState): readonly LostSkill[] => {
  const named = new Set(generation?.sections.skills?.map(({ name }) => name));
  const whole = new Map(
    skills.flatMap(({ name, seq, shown, isShort }) => (shown === "whole" && isShort !== true ? [[name, seq]] : [])),
  );
  return newestLost(
    skills.filter(
      ({ name, seq, shown }) =>
        shown === "marker" && contains(hidden, seq) && !named.has(name) && (whole.get(name) ?? 0) < seq,
    ),
  ).map(({ name, seq }) => ({ name, seq }));
};
