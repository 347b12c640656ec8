/** A session that a case is run in: what the API does for it, and the rows that only a test can append. */
import { expect } from "vitest";
import { type MessageId, newId } from "../../src/protocol/ids.ts";
import { newRow } from "../../src/turns/rows.ts";
import type { CaseMessage } from "./case-log.ts";
import type { CompactingSession } from "./compaction.ts";
import type { Answer, TestPlatform } from "./platform.ts";

export interface CaseSession {
  /** Adds messages, to be in the log before the next thing that is done. */
  add(message: CaseMessage): void;
  /** The last added message, taken back, if it is somebody's request. */
  takeRequest(): CaseMessage | undefined;
  flush(): Promise<void>;
  turn(input: string): Promise<Answer>;
  /** Asks for a compaction over the API. */
  compact(): Promise<void>;
  /** Undoes turns over the API (R3). */
  rewind(target: { readonly turns: number } | { readonly to_seq: number }): Promise<void>;
  /** Input that arrives while a run is on (M5). */
  arrive(text: string): Promise<void>;
  /** The waits that failed compactions left behind, in seconds. */
  readonly cooldowns: readonly number[];
}

const importBody = (messages: readonly CaseMessage[]): string =>
  `{"messages":[${messages.map(({ role, content }) => `{"role":"${role}","content":${content}}`).join(",")}]}`;

/** A row of the log as an import would make it, in a session that takes no import any more. */
const append = async (platform: TestPlatform, session: string, message: CaseMessage): Promise<void> => {
  const { origin, content, calls } = message;
  const row = newRow({ id: newId("msg") as MessageId, origin, content, calls, runId: null });
  await platform.database.sql(
    `with next as (select coalesce(max(seq), 0) + 1 as seq, $6::text[] as calls from messages where session_id = $1),
       head as (update session_heads h set next_seq = next.seq + case when next.calls = '{}' then 1 else 2 end,
           open_batch_seq = case when next.calls = '{}' then null else next.seq end
         from next where h.session_id = $1 returning next.seq, next.calls)
     insert into messages (session_id, seq, id, role, origin, content, calls, tokens, bytes)
     select $1, seq, $2, $3, $4, $5::json, calls, $7, $8 from head`,
    [session, row.id, row.role, origin, content, `{${calls.join(",")}}`, row.tokens, row.bytes],
  );
};

export const caseSession = (platform: TestPlatform, session: CompactingSession): CaseSession => {
  const { id, call, untouched } = session;
  const cooldowns: number[] = [];
  let added: CaseMessage[] = [];
  let ran = false;

  const flush = async (): Promise<void> => {
    if (ran) for (const message of added) await append(platform, id, message);
    else if (added.length > 0) {
      const { status, body } = await call("POST", `/v1/sessions/${id}/import`, importBody(added));
      expect([status, body.error]).toEqual([200, undefined]);
    }
    added = [];
  };
  return {
    cooldowns,
    flush,
    add: (message) => added.push(message),
    takeRequest: () => (added.at(-1)?.origin === "user" ? added.pop() : undefined),
    turn: async (input) => {
      await flush();
      ran = true;
      return untouched(() => session.turn(input));
    },
    compact: async () => {
      await flush();
      ran = true;
      await untouched(() => call("POST", `/v1/sessions/${id}/compact`, {}));
      const { cooldown_s } = await session.head();
      if (cooldown_s !== null && cooldown_s > 0) cooldowns.push(cooldown_s);
    },
    rewind: async (target) => {
      await flush();
      ran = true;
      const { status, body } = await untouched(() => call("POST", `/v1/sessions/${id}/rewind`, target));
      expect([status, body.error]).toEqual([200, undefined]);
    },
    arrive: async (text) => {
      const content = JSON.stringify([{ type: "text", text }]);
      const row = newRow({ id: newId("msg") as MessageId, origin: "user", content, runId: null });
      await platform.database.sql(
        "insert into inputs (id, session_id, origin, content, tokens, bytes) values ($1, $2, 'user', $3::json, $4, $5)",
        [row.id, id, content, row.tokens, row.bytes],
      );
    },
  };
};

/**
 * Whether these results can come now: all results of a message stand in the one message after it, so what follows the calls already, be it
 * a part of the results or what closed the batch, is all there will be.
 */
export const isNext = async (platform: TestPlatform, session: string, results: readonly string[]): Promise<boolean> => {
  const [newest] = await platform.database.sql(
    "select calls from messages where session_id = $1 order by seq desc limit 1",
    [session],
  );
  return JSON.stringify(newest?.calls) === JSON.stringify(results);
};
