/**
 * Subagents in the store: a call of the tool `task` is a session of its own below the session of the call, with one run. Everything about it is
 * found by the run that made the call, so that whoever goes on with that run finds what its calls had begun.
 */
import { sql } from "drizzle-orm";
import type { MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { NewRow } from "../protocol/messages.ts";
import type { Db } from "./db.ts";
import { leaseHeld } from "./lease.ts";
import type { LoadLimits } from "./loading.ts";
import { textOrNull } from "./rows.ts";
import { findRunStatement, type RunRecord, runRecord } from "./runs.ts";
import { insertSession, type Json } from "./sessions.ts";
import type { RunIdentity } from "./statements.ts";
import { type TakeOutcome, takenOf, takeStatements } from "./take.ts";
import { insertQueued } from "./waiting-input.ts";

export interface SubagentIds {
  readonly sessionId: SessionId;
  readonly runId: RunId;
  readonly inputId: MessageId;
}

export interface StartSubagent {
  /** The run that makes the call, by the lease that it holds. */
  readonly parent: RunIdentity & { readonly depth: number; readonly rootSessionId: SessionId };
  readonly callId: string;
  /** Derived from the call: the same whoever asks, and how often. */
  readonly ids: SubagentIds;
  readonly type: string;
  readonly title: string;
  readonly model: string;
  readonly system: string;
  readonly tools: readonly Json[];
  readonly settings: Json;
  /** Its first message, with the id of `ids`. */
  readonly input: NewRow;
  /** Chosen by the Worker for this attempt. */
  readonly token: string;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly limits: LoadLimits | null;
}

export interface StartedSubagent {
  readonly take: TakeOutcome;
  /** The run as it was before; null where this is its first start. */
  readonly before: RunRecord | null;
}

/**
 * Makes the session of a call and its run, unless they are there, and takes the run up, unless it has ended or a Worker of the same hold on the
 * parent is at work on it. All of it on the condition that the parent's lease is held. One round trip; sent twice, it is once.
 * @throws StoreUnavailable
 */
export const startSubagent = async (db: Db, start: StartSubagent): Promise<StartedSubagent> => {
  const { parent, ids, callId } = start;
  const held = sql`exists (select 1 from session_heads h where ${leaseHeld(parent.lease)})`;
  // An erasure of the parent comes before this, and then there is no lease, or after it, and then it finds the session.
  const lock = sql`select 1 from session_heads h where ${leaseHeld(parent.lease)} for share`;
  const session = {
    id: ids.sessionId,
    tenantId: parent.tenantId,
    key: null,
    user: parent.user,
    title: start.title,
    model: start.model,
    system: start.system,
    tools: start.tools,
    settings: start.settings,
    metadata: {},
    createdWith: "",
    files: [],
    subagent: {
      parentSessionId: parent.sessionId,
      parentRunId: parent.lease.holder,
      parentCallId: callId,
      rootSessionId: parent.rootSessionId,
      type: start.type,
      depth: parent.depth + 1,
    },
  };
  const own = sql`sessions s where s.id = ${ids.sessionId} and s.tenant_id = ${parent.tenantId} and ${held}`;
  const results = await db.batch(
    [
      lock,
      ...insertSession(session, null, held),
      findRunStatement(parent.tenantId, ids.runId),
      sql`insert into runs (id, tenant_id, session_id, key_id, status, trigger, model)
        select ${ids.runId}, s.tenant_id, s.id, ${parent.keyId}, 'queued', 'subagent', s.model from ${own} on conflict do nothing`,
      insertQueued(ids.runId, start.input, own),
      ...takeStatements({
        tenantId: parent.tenantId,
        runId: ids.runId,
        token: start.token,
        startedAt: start.startedAt,
        limits: start.limits,
        parent: parent.lease,
      }),
    ],
    { name: "start subagent", repeatable: true },
  );
  const before = results[3]?.[0];
  return {
    take: takenOf({ tenantId: parent.tenantId, runId: ids.runId }, results),
    before: before === undefined ? null : runRecord(before),
  };
};

/** The newest answer of a subagent, as content; null where it never answered. @throws StoreUnavailable */
export const lastAnswer = async (
  db: Db,
  { tenantId }: Pick<RunIdentity, "tenantId">,
  sessionId: SessionId,
): Promise<string | null> => {
  const [rows] = await db.batch(
    [
      sql`select m.content::text as content from messages m join sessions s on s.id = m.session_id and s.tenant_id = ${tenantId}
        where m.session_id = ${sessionId} and m.origin = 'assistant' order by m.seq desc limit 1`,
    ],
    { name: "last answer", repeatable: true },
  );
  const row = rows?.[0];
  return row === undefined ? null : textOrNull(row, "content");
};
