/** A session in a small window, for the tests of compaction: its log, what it sent, and what was recorded of its view. */
import { expect } from "vitest";
import type { ScriptBlock } from "../../src/local/simulator/script.ts";
import { type Answer, type Call, callerOf, makeTenant, type Tenant, type TestPlatform } from "./platform.ts";

/** `claude-sonnet-5-5` binds its thinking to what stands before it. */
export const MODEL = "claude-sonnet-5-5";

// biome-ignore lint/suspicious/noExplicitAny: tests look into requests of every shape
type Json = any;

export interface Message {
  readonly role: "user" | "assistant";
  readonly content: unknown;
}

export interface Checksum {
  readonly rows: number;
  readonly sum: string;
}

export interface CompactingSession {
  readonly id: string;
  readonly tenant: Tenant;
  readonly call: Call;
  /** Another session of the same tenant. */
  as(id: string): CompactingSession;
  turn(input: string): Promise<Answer>;
  /** A turn that must be answered. */
  answered(input: string): Promise<Answer>;
  /** A turn whose answer is this; further answers of the same turn follow. */
  scripted(input: string, ...replies: readonly (string | readonly ScriptBlock[])[]): Promise<Answer>;
  load(messages: readonly Message[]): Promise<void>;
  /** Bodies of the requests of turns so far. */
  sent(): readonly Json[];
  /** The newest of them. */
  lastSent(): Json;
  /** How often the summariser was asked. */
  summaries(): number;
  /** What the provider refused as no valid request. A refused request has no purpose yet, so summaries are among them. */
  rejections(): readonly number[];
  /** The whole log, oldest first, as the API shows it. */
  log(): Promise<readonly Json[]>;
  /** Count and checksum of the rows up to a seq. */
  checksum(upTo?: number): Promise<Checksum>;
  /** Does something, and expects that no row that was there before has changed (M6). */
  untouched<T>(act: () => Promise<T>): Promise<T>;
  /** Rows of `compactions` and reasons of `view_revisions`. */
  generations(): Promise<readonly Json[]>;
  revisions(): Promise<readonly string[]>;
  head(): Promise<Json>;
  file(path: string): Promise<Answer>;
  history(): Promise<string>;
}

export interface SessionOptions {
  readonly windowTokens: number;
  /** Further fields of the session. */
  readonly fields?: object;
  /** Further settings of its context. */
  readonly context?: object;
  /** Further behaviour of the model. */
  readonly model?: object;
}

/** Makes a session with a window of its own; the simulator's model has the same. */
export const compactingSession = async (
  platform: TestPlatform,
  { windowTokens, fields = {}, context = {}, model = {} }: SessionOptions,
): Promise<CompactingSession> => {
  const { simulator, database } = platform;
  simulator.setModels({ [MODEL]: { maxInputTokens: windowTokens, ...model } });
  const tenant = await makeTenant(database);
  const call = callerOf(platform.url, tenant);
  const made = await call("POST", "/v1/sessions", {
    model: MODEL,
    max_tokens: 1_000,
    context: { max_input_tokens: windowTokens, ...context },
    ...fields,
  });
  if (made.status !== 201) throw new Error(`no session: ${JSON.stringify(made.body)}`);
  return sessionOf(platform, tenant, made.body.id);
};

/** A session that is there already. */
const sessionOf = (platform: TestPlatform, tenant: Tenant, id: string): CompactingSession => {
  const { simulator, database } = platform;
  const call = callerOf(platform.url, tenant);
  const received = () => simulator.requests.filter(({ path }) => path === "/v1/messages");
  const bodies = (): readonly Json[] =>
    received()
      .filter(({ purpose, bodyText }) => purpose === "turn" && bodyText !== "")
      .map(({ bodyText }) => JSON.parse(bodyText));
  const checksum = async (upTo = Number.MAX_SAFE_INTEGER): Promise<Checksum> => {
    const [row] = await database.sql(
      `select count(*)::int as rows,
         coalesce(md5(string_agg(concat_ws('|', seq, id, role, origin, content::text, calls, media), '~' order by seq)), '') as sum
       from messages where session_id = $1 and seq <= $2`,
      [id, upTo],
    );
    return row as unknown as Checksum;
  };
  const turn = (input: string) => call("POST", `/v1/sessions/${id}/turns`, { input });
  const answered = async (input: string): Promise<Answer> => {
    const answer = await turn(input);
    expect([answer.status, answer.body.status, answer.body.error?.message]).toEqual([200, "completed", undefined]);
    return answer;
  };

  return {
    id,
    tenant,
    call,
    as: (other) => sessionOf(platform, tenant, other),
    turn,
    answered,
    scripted: (input, ...replies) => {
      for (const content of replies)
        simulator.enqueue({
          match: { purpose: "turn" },
          reply: { content: typeof content === "string" ? content : [...content] },
        });
      return answered(input);
    },
    load: async (messages) => {
      const { status, body } = await call("POST", `/v1/sessions/${id}/import`, { messages });
      expect([status, body.error]).toEqual([200, undefined]);
    },
    sent: bodies,
    lastSent: () => bodies().at(-1),
    summaries: () => received().filter(({ purpose }) => purpose === "summarize").length,
    rejections: () =>
      received()
        .filter(({ purpose, status }) => purpose === undefined && status !== 200)
        .map(({ status }) => status),
    log: async () => {
      const rows: Json[] = [];
      for (let page: string | null = ""; page !== null; ) {
        const { body }: Answer = await call(
          "GET",
          `/v1/sessions/${id}/messages?order=asc&limit=100${page === "" ? "" : `&page=${page}`}`,
        );
        rows.push(...body.data);
        page = body.next_page;
      }
      return rows;
    },
    checksum,
    untouched: async (act) => {
      const [newest] = await database.sql(
        "select coalesce(max(seq), 0)::int as seq from messages where session_id = $1",
        [id],
      );
      const seq = Number(newest?.seq ?? 0);
      const before = await checksum(seq);
      const result = await act();
      expect(await checksum(seq)).toEqual(before);
      return result;
    },
    generations: () =>
      database.sql(
        `select generation::int, base_generation::int, covered::text, pinned_seq::int, pinned_text, reason, summary, tokens_before, tokens_after,
           tokens_read, evicted, history_path, model from compactions where session_id = $1 order by generation`,
        [id],
      ),
    revisions: async () =>
      (await database.sql("select reason from view_revisions where session_id = $1 order by revision", [id])).map(
        (row) => String(row.reason),
      ),
    head: async () =>
      (
        await database.sql(
          `select revision::int, thinking_floor::int, cooldown_reason, summary_timeouts, summary_truncations, strikes, compaction_pause,
             probation_at, infeasible_skips, guarded_reading,
             extract(epoch from cooldown_until - hango_now())::int as cooldown_s
           from session_heads where session_id = $1`,
          [id],
        )
      )[0],
    file: (path) => call("GET", `/v1/sessions/${id}/files${path}`),
    history: async () => {
      const { status, body } = await call("GET", `/v1/sessions/${id}/files/conversation_history/${id}.md`);
      expect(status).toBe(200);
      return String(body);
    },
  };
};

const WORDS =
  "the report was ready before noon and every reader found the table that names which parts of system were slow because an index had been missing since last release while small changes kept landing without review so team agreed to measure first then write down what they saw".split(
    " ",
  );

/** English words, so many, always the same for a seed. */
export const prose = (words: number, seed = 1): string => {
  let state = (seed * 7919 + 17) % 65_537;
  return Array.from({ length: words }, () => {
    state = (state * 75 + 74) % 65_537;
    return WORDS[state % WORDS.length];
  }).join(" ");
};

export const user = (text: string): Message => ({ role: "user", content: text });
export const assistant = (text: string): Message => ({ role: "assistant", content: text });

/** `count` times a question and its answer, each with so many words. */
export const talk = (count: number, words: number, name = "q"): readonly Message[] =>
  Array.from({ length: count }, (_, at) => [
    user(`Question ${name}${at}: ${prose(words, 2 * at + 1)}`),
    assistant(`Answer ${name}${at}: ${prose(words, 2 * at + 2)}`),
  ]).flat();

export const calls = (...ids: readonly string[]): Message => ({
  role: "assistant",
  content: ids.map((id) => ({ type: "tool_use", id, name: "read_file", input: { file_path: `/src/${id}.ts` } })),
});

export const results = (text: string, ...ids: readonly string[]): Message => ({
  role: "user",
  content: ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: text })),
});

/** `count` times one call and its result. */
export const rounds = (count: number, chars: number, name = "c"): readonly Message[] =>
  Array.from({ length: count }, (_, at) => [
    calls(`${name}${at}`),
    results(`Result ${name}${at}: ${prose(Math.ceil(chars / 4), at)}`.slice(0, chars), `${name}${at}`),
  ]).flat();

/** All text of a request's messages, or of some of them. */
export const textOf = (messages: unknown): string => {
  const texts: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === "string") texts.push(value);
    else if (Array.isArray(value)) value.forEach(visit);
    else if (value !== null && typeof value === "object")
      for (const [key, inner] of Object.entries(value)) if (!["type", "role", "signature"].includes(key)) visit(inner);
  };
  visit(messages);
  return texts.join("\n");
};

export const occurrences = (text: string, part: string): number => text.split(part).length - 1;
