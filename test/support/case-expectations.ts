/** What the cases of `test/fixtures/cases` expect: a check for every key they use. */
import { expect } from "vitest";
import { END_MARK, PREFIXES } from "../../src/context/handoff.ts";
import { validateMessages } from "../../src/context/validator.ts";
import type { CaseRun } from "./case-run.ts";
import { occurrences, textOf } from "./compaction.ts";
import type { TestPlatform } from "./platform.ts";

export interface Checked extends CaseRun {
  readonly platform: TestPlatform;
}

type Check = (run: Checked, wanted: never) => void | Promise<void>;

// biome-ignore lint/suspicious/noExplicitAny: tests look into requests of every shape
type Json = any;

const lastText = ({ session }: Checked): string => {
  const request = session.lastSent();
  return textOf([request.system, request.messages]);
};

const blocksOf = ({ session }: Checked): readonly Json[] =>
  session.lastSent().messages.flatMap(({ content }: { content: Json[] }) => content);

const HEADING = PREFIXES[0]?.split("\n")[0] ?? "";

const rangesFrom = (text: string): readonly (readonly [from: number, before: number])[] =>
  [...text.matchAll(/\[(\d+),(\d+)\)/g)].map(([, from, before]) => [Number(from), Number(before)]);

const isIn = (ranges: readonly (readonly [number, number])[], seq: number): boolean =>
  ranges.some(([from, before]) => from <= seq && seq < before);

/** What the newest generation covers and the newest revision hides. */
const outOfView = async ({ platform, session }: Checked) => {
  const [row] = await platform.database.sql(
    `select v.hidden::text as hidden, coalesce(c.covered::text, '{}') as covered from view_revisions v
       left join compactions c on c.session_id = v.session_id and c.generation = v.generation
     where v.session_id = $1 order by v.revision desc limit 1`,
    [session.id],
  );
  return { hidden: rangesFrom(String(row?.hidden ?? "")), covered: rangesFrom(String(row?.covered ?? "")) };
};

const check = <T>(run: (run: Checked, wanted: T) => void | Promise<void>): Check => run as Check;

export const CHECKS: Readonly<Record<string, Check>> = {
  valid: check<true>(({ session, answer }) => {
    expect([answer?.status, answer?.body.error?.message]).toEqual([200, undefined]);
    expect(session.rejections()).toEqual([]);
    const messages = session
      .lastSent()
      .messages.map(({ role, content }: Json) => ({ role, content: JSON.stringify(content), media: [] }));
    expect(validateMessages(messages, { maxMarks: 4 })).toEqual([]);
  }),
  fits: check<true>(({ session, answer }) => {
    expect([answer?.body.status, session.rejections()]).toEqual(["completed", []]);
  }),
  contains_once: check<readonly string[]>((run, parts) => {
    for (const part of parts) expect([part, occurrences(lastText(run), part)]).toEqual([part, 1]);
  }),
  contains: check<readonly string[]>((run, parts) => {
    for (const part of parts) expect(lastText(run)).toContain(part);
  }),
  not_contains: check<readonly string[]>((run, parts) => {
    for (const part of parts) expect(lastText(run)).not.toContain(part);
  }),
  handoffs: check<number>((run, count) => {
    expect(occurrences(lastText(run), HEADING)).toBe(count);
    expect(occurrences(lastText(run), END_MARK)).toBe(count);
  }),
  handoff_chars_max: check<number>(({ session }, most) => {
    const text = textOf(session.lastSent().messages[0]);
    expect(text.startsWith(HEADING)).toBe(true);
    expect(text.length).toBeLessThanOrEqual(most);
  }),
  after_end_mark_not_contains: check<readonly string[]>((run, parts) => {
    const text = lastText(run);
    expect(text).toContain(END_MARK);
    for (const part of parts) expect(text.slice(text.indexOf(END_MARK))).not.toContain(part);
  }),
  generations: check<number>(async ({ session }, count) => {
    expect(await session.generations()).toHaveLength(count);
  }),
  summarizer_calls: check<number>(({ session }, count) => {
    expect(session.summaries()).toBe(count);
  }),
  summarizer_overflows: check<number>(({ session }, count) => {
    expect(session.rejections()).toHaveLength(count);
  }),
  overflows: check<number>(({ session }, count) => {
    expect(session.rejections()).toHaveLength(count);
  }),
  coverage: check<true>(async (run) => {
    const { hidden, covered } = await outOfView(run);
    const rows = (await run.session.log()).slice(0, -1);
    for (const { seq } of rows) expect([seq, isIn(hidden, seq) && isIn(covered, seq)]).toEqual([seq, false]);
    const kept = rows.filter(({ seq }) => !isIn(hidden, seq) && !isIn(covered, seq));
    const shown = run.session.lastSent().messages.filter(({ content }: Json) => !textOf(content).startsWith(HEADING));
    expect(shown.map(({ role, content }: Json) => [role, textOf(content)])).toEqual(
      kept.map(({ role, content }) => [role, textOf(content)]),
    );
  }),
  log_unchanged: check<true>(async ({ session }) => {
    // Every step was checked by itself; what is left is that the log is without a gap or a double.
    const seqs = (await session.log()).map(({ seq }) => seq);
    expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b));
  }),
  batch_whole: check<readonly string[]>((run, ids) => {
    const blocks = blocksOf(run);
    const shown = (field: string) => ids.filter((id) => blocks.some((block) => block[field] === id));
    const called = shown("id");
    expect([[], ids]).toContainEqual(called);
    expect(shown("tool_use_id")).toEqual(called);
  }),
  stubbed: check<readonly string[]>(async (run, ids) => {
    const results = blocksOf(run).filter(({ tool_use_id }) => ids.includes(tool_use_id));
    expect(results.map(({ tool_use_id, is_error }) => [tool_use_id, is_error])).toEqual(ids.map((id) => [id, true]));
    for (const id of ids) expect(JSON.stringify(await run.session.log())).not.toContain(`"tool_use_id":"${id}"`);
  }),
  order: check<readonly string[]>(({ session }, parts) => {
    const text = JSON.stringify(session.lastSent().messages);
    const places = parts.map((part) => text.indexOf(`"${part}"`));
    expect(places.every((place) => place >= 0)).toBe(true);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  }),
  bytes_contain: check<readonly string[]>(({ platform }, parts) => {
    const body = platform.simulator.requests.findLast(({ purpose }) => purpose === "turn")?.bodyText;
    for (const part of parts) expect(body).toContain(part);
  }),
  kept_at_or_before: check<string>(async (run, id) => {
    const rows = await run.session.log();
    const row = rows.find(({ content }) => JSON.stringify(content).includes(`"id":"${id}"`));
    const { covered, hidden } = await outOfView(run);
    expect(row).toBeDefined();
    expect(isIn(covered, row.seq) || isIn(hidden, row.seq)).toBe(false);
  }),
  error: check<string>(({ answer }, code) => {
    expect([answer?.status, answer?.body.error?.code]).toEqual([422, code]);
  }),
  /** What comes then is done by `runCase`; it is valid too. */
  // biome-ignore lint/suspicious/noThenProperty: the name is the cases'
  then: check<readonly unknown[]>(({ answer }) => {
    expect([answer?.body.status, answer?.body.error]).toEqual(["completed", null]);
  }),
  then_turn: check<string>(() => undefined),
  then_ok: check<true>(() => undefined),
  cooldowns_s: check<readonly number[]>(({ cooldowns }, wanted) => {
    // Seconds pass while it is asked.
    expect(cooldowns.map((seconds, at) => (Math.abs(seconds - (wanted[at] ?? 0)) < 20 ? wanted[at] : seconds))).toEqual(
      wanted,
    );
  }),
  well_formed: check<true>(({ platform, session }) => {
    for (const { bodyText } of platform.simulator.requests) {
      expect(bodyText.isWellFormed()).toBe(true);
      if (bodyText !== "") expect(textOf(JSON.parse(bodyText)).isWellFormed()).toBe(true);
    }
    expect(session.sent().length).toBeGreaterThan(0);
  }),
  last_user_verbatim: check<true>(async ({ session }) => {
    const asked = (await session.log()).findLast(({ role }) => role === "user");
    expect(textOf(session.lastSent().messages.at(-1).content)).toBe(textOf(asked.content));
  }),
  history_contains: check<readonly string[]>(async ({ session }, parts) => {
    const text = await session.history();
    for (const part of parts) expect(text).toContain(part);
  }),
  thinking_binding: check<"enforced">(({ session }) => {
    expect(session.rejections()).toEqual([]);
  }),
  estimate_includes: check<readonly string[]>(async ({ session, answer }, parts) => {
    const { usage } = answer?.body ?? {};
    const reading = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    const { budget } = (await session.call("GET", `/v1/sessions/${session.id}/context`)).body;
    for (const part of parts) expect(budget[part]).toBeGreaterThan(0.2 * reading);
    const estimate = budget.system + budget.tools + budget.handoff + budget.kept;
    expect(Math.abs(estimate - reading) / reading).toBeLessThan(0.25);
  }),
  provider_calls_after: check<number>(({ session, turnsBefore }, count) => {
    expect(session.sent().length - turnsBefore).toBe(count);
  }),
  assistant_rows_added: check<number>(async ({ session, assistantRowsBefore }, count) => {
    const rows = (await session.log()).filter(({ role }) => role === "assistant");
    expect(rows.length - assistantRowsBefore).toBe(count);
  }),
};
