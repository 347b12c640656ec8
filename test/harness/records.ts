/** What the database holds of a session, read in one statement, beside the Workers. */
import type { Lane } from "./lane.ts";

export interface LogEntry {
  readonly seq: number;
  readonly role: "user" | "assistant";
  readonly origin: string;
  readonly calls: readonly string[];
  /** JSON text. */
  readonly content: string;
  readonly run: string | null;
}

/** What the next request is made from. */
export interface ViewRecord {
  readonly revision: number;
  readonly rewound: string;
  readonly generation: number;
  readonly hidden: string;
  readonly covered: string;
  readonly pinned: number | null;
  readonly held: boolean;
  readonly holder: string | null;
  readonly rows: readonly LogEntry[];
}

const VIEW = `select json_build_object('revision', h.revision, 'rewound', h.rewound::text, 'generation', coalesce(v.generation, 0),
    'hidden', coalesce(v.hidden::text, '{}'), 'covered', coalesce(c.covered::text, '{}'), 'pinned', c.pinned_seq,
    'held', coalesce(h.lease_expires_at > hango_now(), false), 'holder', h.lease_holder,
    'rows', (select coalesce(json_agg(json_build_object('seq', m.seq, 'role', m.role, 'origin', m.origin, 'calls', m.calls,
        'content', m.content::text, 'run', m.run_id) order by m.seq), '[]'::json)
      from messages m where m.session_id = h.session_id and m.seq > $2::bigint)) as record
  from session_heads h left join view_revisions v on v.session_id = h.session_id and v.revision = h.revision
    left join compactions c on c.session_id = h.session_id and c.generation = v.generation where h.session_id = $1`;

const one = async <T>(lane: Lane, query: string, params: readonly (string | number)[]): Promise<T> => {
  const [row] = await lane.sql(query, params);
  return JSON.parse(String(row?.record)) as T;
};

/** @param after rows up to this seq are known */
export const viewRecord = (lane: Lane, sessionId: string, after: number): Promise<ViewRecord> =>
  one(lane, VIEW, [sessionId, after]);

export interface RunRow {
  readonly id: string;
  readonly status: string;
  readonly trigger: string;
  readonly code: string | null;
  readonly message: string | null;
  readonly key: string | null;
  readonly inputSeq: number | null;
  readonly attempts: number;
  readonly cancelled: boolean;
  readonly tokens: readonly number[];
  readonly ends: number;
}

export interface UsageRow {
  readonly run: string;
  readonly purpose: string;
  readonly model: string;
  readonly tokens: readonly number[];
}

export interface GenerationRow {
  readonly generation: number;
  readonly base: number;
  readonly run: string;
  readonly reason: string;
  readonly read: number | null;
  readonly voided: boolean;
}

export interface SessionState {
  /** When it was read, by the lane's clock, ms since the epoch. */
  readonly atMs: number;
  readonly holder: string | null;
  readonly held: boolean;
  readonly revision: number;
  /** The generation that the view shows; 0 for none. */
  readonly generation: number;
  readonly nextSeq: number;
  readonly openBatch: number | null;
  readonly rewound: string;
  readonly model: string;
  readonly head: Readonly<Record<string, unknown>>;
  /** Seconds until the cooldown ends; null where there is none. */
  readonly cooldownSeconds: number | null;
  /** Seq and hash of each row. */
  readonly rows: readonly (readonly [seq: number, hash: string])[];
  readonly compactions: number;
  readonly turns: number;
  readonly tokens: readonly number[];
  readonly runs: readonly RunRow[];
  readonly usage: readonly UsageRow[];
  readonly generations: readonly GenerationRow[];
  readonly inputs: number;
}

const TOKENS = (row: string): string =>
  `json_build_array(${row}.input_tokens, ${row}.output_tokens, ${row}.cache_read_tokens, ${row}.cache_write_tokens)`;

const STATE = `select json_build_object('holder', h.lease_holder, 'held', coalesce(h.lease_expires_at > hango_now(), false),
    'revision', h.revision, 'nextSeq', h.next_seq, 'openBatch', h.open_batch_seq, 'rewound', h.rewound::text, 'model', s.model,
    'head', to_jsonb(h) - 'calibration',
    'generation', coalesce((select v.generation from view_revisions v where v.session_id = s.id and v.revision = h.revision), 0),
    'cooldownSeconds', extract(epoch from h.cooldown_until - hango_now()),
    'rows', (select coalesce(json_agg(json_build_array(m.seq, md5(m::text)) order by m.seq), '[]'::json) from messages m where m.session_id = s.id),
    'compactions', s.compactions, 'turns', s.turns, 'tokens', ${TOKENS("s")},
    'runs', (select coalesce(json_agg(json_build_object('id', r.id, 'status', r.status, 'trigger', r.trigger, 'code', r.error->>'code',
        'message', r.error->>'message', 'key', r.idempotency_key, 'inputSeq', r.input_seq, 'attempts', r.attempts,
        'cancelled', r.cancel_requested_at is not null, 'tokens', ${TOKENS("r")},
        'ends', (select count(*) from run_events e where e.session_id = s.id and e.run_id = r.id
          and e.type in ('run.completed', 'run.failed', 'run.cancelled'))) order by r.position), '[]'::json) from runs r where r.session_id = s.id),
    'usage', (select coalesce(json_agg(json_build_object('run', u.run_id, 'purpose', u.purpose, 'model', u.model, 'tokens', ${TOKENS("u")})
        order by u.id), '[]'::json) from usage_records u where u.session_id = s.id),
    'generations', (select coalesce(json_agg(json_build_object('generation', c.generation, 'base', c.base_generation, 'run', c.run_id,
        'reason', c.reason, 'read', c.tokens_read, 'voided', c.voided_at is not null) order by c.generation), '[]'::json)
      from compactions c where c.session_id = s.id),
    'inputs', (select count(*) from inputs i where i.session_id = s.id)) as record
  from sessions s join session_heads h on h.session_id = s.id where s.id = $1`;

export const sessionState = async (lane: Lane, sessionId: string): Promise<SessionState> => ({
  ...(await one<Omit<SessionState, "atMs">>(lane, STATE, [sessionId])),
  atMs: lane.nowMs(),
});

const TABLES = [
  "messages",
  "compactions",
  "view_revisions",
  "session_heads",
  "runs",
  "run_events",
  "usage_records",
  "inputs",
];

const EVERYTHING = `select (${TABLES.map(
  (table) =>
    `select '${table} ' || coalesce(md5(string_agg(t::text, ' ' order by t::text)), '') from ${table} t where t.session_id = $1`,
)
  .map((query) => `(${query})`)
  .join(" || ' ' || ")} || (select ' sessions ' || md5(s::text) from sessions s where s.id = $1)) as record`;

/** A text that differs as soon as a byte of the session does. */
export const fingerprint = async (lane: Lane, sessionId: string): Promise<string> => {
  const [row] = await lane.sql(EVERYTHING, [sessionId]);
  return String(row?.record);
};
