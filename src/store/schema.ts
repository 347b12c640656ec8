/**
 * The tables (architecture section 4). Tables of later work come with it. Every query filters by tenant, directly or through
 * a session that was found by tenant.
 */
import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  customType,
  index,
  integer,
  jsonb,
  numeric,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
} from "drizzle-orm/pg-core";

/** JSON kept as the text that it came as. `jsonb` would reorder keys, drop duplicates and refuse NUL escapes (V9). */
const jsonText = customType<{ data: string; driverData: string }>({ dataType: () => "json" });

/** A set of seq ranges, as PostgreSQL writes it: `{[1,5),[9,12)}`. */
const seqRanges = customType<{ data: string; driverData: string }>({ dataType: () => "int8multirange" });

const time = (name: string) => timestamp(name, { withTimezone: true, mode: "string" });
const createdAt = () => time("created_at").notNull().default(sql`hango_now()`);

export const tenants = pgTable("tenants", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  status: text("status").$type<"active" | "suspended">().notNull().default("active"),
  createdAt: createdAt(),
});

export const apiKeys = pgTable(
  "api_keys",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id")
      .notNull()
      .references(() => tenants.id),
    name: text("name").notNull().default(""),
    /** SHA-256 of the secret, in hex. The secret itself is stored nowhere. */
    hash: text("hash").notNull(),
    /** The secret's first characters, by which a person tells keys apart. */
    prefix: text("prefix").notNull(),
    scopes: text("scopes").array().$type<("read" | "write" | "content" | "admin")[]>().notNull(),
    expiresAt: time("expires_at"),
    revokedAt: time("revoked_at"),
    createdAt: createdAt(),
  },
  (t) => [uniqueIndex("api_keys_hash").on(t.hash), index("api_keys_tenant").on(t.tenantId, t.id)],
);

export const sessions = pgTable(
  "sessions",
  {
    id: text("id").primaryKey(),
    /** Null while the session is being erased: it is nobody's, and no statement that asks for a tenant's sessions finds it. */
    tenantId: text("tenant_id").references(() => tenants.id),
    /** The caller's own name for the session. */
    key: text("key"),
    user: text("user_id"),
    title: text("title"),
    model: text("model").notNull(),
    system: text("system"),
    tools: jsonb("tools").$type<readonly Record<string, unknown>[]>().notNull().default([]),
    settings: jsonb("settings").$type<Record<string, unknown>>().notNull().default({}),
    metadata: jsonb("metadata").$type<Record<string, string>>().notNull().default({}),
    /** Hash of what the session was created with: a second create with the same key must ask for the same. */
    createdWith: text("created_with").notNull(),
    todos: jsonb("todos").$type<readonly unknown[]>().notNull().default([]),
    /** Files that the session was created with and that are not written yet: path and text. Null once they are. */
    pendingFiles: jsonText("pending_files"),
    turns: integer("turns").notNull().default(0),
    inputTokens: bigint("input_tokens", { mode: "number" }).notNull().default(0),
    outputTokens: bigint("output_tokens", { mode: "number" }).notNull().default(0),
    cacheReadTokens: bigint("cache_read_tokens", { mode: "number" }).notNull().default(0),
    cacheWriteTokens: bigint("cache_write_tokens", { mode: "number" }).notNull().default(0),
    costUsd: numeric("cost_usd", { mode: "number" }).notNull().default(0),
    /** Prompt size of the newest call, in tokens. */
    lastInputTokens: integer("last_input_tokens").notNull().default(0),
    compactions: integer("compactions").notNull().default(0),
    lastRunId: text("last_run_id"),
    /** The session that this one was copied from, where it was forked; no reference: it may be erased. */
    forkedFrom: text("forked_from"),
    /** The last seq of the original that was copied. */
    forkedAtSeq: bigint("forked_at_seq", { mode: "number" }),
    /** Of a subagent's session: the call that it works for. Erased with its parent; no reference, as the run may go first. */
    parentSessionId: text("parent_session_id"),
    parentRunId: text("parent_run_id"),
    parentCallId: text("parent_call_id"),
    /** Of a subagent's session: the session at the top, whose files it works on. */
    rootSessionId: text("root_session_id"),
    subagentType: text("subagent_type"),
    /** How far below the session at the top; 0 for that one. */
    depth: integer("depth").notNull().default(0),
    createdAt: createdAt(),
    updatedAt: time("updated_at").notNull().default(sql`hango_now()`),
  },
  (t) => [
    unique("sessions_tenant_key").on(t.tenantId, t.key),
    uniqueIndex("sessions_parent")
      .on(t.parentSessionId, t.parentRunId, t.parentCallId)
      .where(sql`parent_session_id is not null`),
    index("sessions_parent_run").on(t.parentRunId).where(sql`parent_run_id is not null`),
    index("sessions_tenant_id").on(t.tenantId, t.id),
    index("sessions_tenant_updated").on(t.tenantId, t.updatedAt),
    index("sessions_tenant_user").on(t.tenantId, t.user, t.id),
  ],
);

/** The hot row of a session: what changes within a turn. */
export const sessionHeads = pgTable("session_heads", {
  sessionId: text("session_id")
    .primaryKey()
    .references(() => sessions.id, { onDelete: "cascade" }),
  nextSeq: bigint("next_seq", { mode: "number" }).notNull().default(1),
  nextEvent: bigint("next_event", { mode: "number" }).notNull().default(1),
  rewound: seqRanges("rewound").notNull().default("{}"),
  /** Seq of the assistant row whose tool results are not stored yet; they go to the seq after it, which is reserved (M7). */
  openBatchSeq: bigint("open_batch_seq", { mode: "number" }),
  /** Assistant rows with a lower seq are sent without thinking (V5). */
  thinkingFloor: bigint("thinking_floor", { mode: "number" }).notNull().default(1),
  /** The current revision of the view; 0 while nothing of it was ever changed. */
  revision: bigint("revision", { mode: "number" }).notNull().default(0),
  /** What was learned from pairs of estimate and reading (E4). */
  calibration: jsonText("calibration"),
  /** No summary is tried before this (G1). */
  cooldownUntil: time("cooldown_until"),
  /** The class of the newest failed summary since the last that was made. */
  cooldownReason: text("cooldown_reason"),
  /** Summaries in a row that timed out, and that were cut off: each class has a ladder of its own (G1). */
  summaryTimeouts: integer("summary_timeouts").notNull().default(0),
  summaryTruncations: integer("summary_truncations").notNull().default(0),
  /** Compactions without effect since the last that had one (G3). */
  strikes: integer("strikes").notNull().default(0),
  /** Whether automatic compaction is on (null), or paused because the newest two came to the same (G8). */
  compactionPause: text("compaction_pause").$type<"same_result">(),
  /** When automatic compaction that is blocked may be tried once; set by the first evaluation that was blocked, and anew with each probe (G4). */
  probationAt: time("probation_at"),
  /** The attempt that was granted the newest probe: a grant that is sent twice is one (G4). */
  probeId: text("probe_id"),
  /** Summaries left out as not worth it since the last reading under the trigger (G5). */
  infeasibleSkips: integer("infeasible_skips").notNull().default(0),
  /** The newest generation whose commit the guards have seen; 0 for none. */
  guardedGeneration: bigint("guarded_generation", { mode: "number" }).notNull().default(0),
  /** What readings since that commit say; null where there is no commit to judge (G3, G7, G8). */
  guardedReading: text("guarded_reading").$type<"awaiting" | "over" | "under">(),
  /** What that generation covers and how long its summary is, by which the next is compared with it; null for nothing to compare (G8). */
  guardedHash: text("guarded_hash"),
  guardedSummaryTokens: integer("guarded_summary_tokens"),
  /** The newest seq at that commit: with none newer there is nothing to cut (C5). */
  settledSeq: bigint("settled_seq", { mode: "number" }).notNull().default(0),
  /** The run that the two counts are of: they hold for whichever Worker goes on with it (M4). */
  budgetRunId: text("budget_run_id"),
  budgetCompactions: integer("budget_compactions").notNull().default(0),
  budgetAttempts: integer("budget_attempts").notNull().default(0),
  /** What the guards were learned with; another model, provider or summariser clears what was learned of the old one (G10). */
  guardsModel: text("guards_model"),
  guardsProvider: text("guards_provider"),
  guardsSummarizer: text("guards_summarizer"),
  /** Turns that ended normally since the last pass of micro-compaction was begun, where the session has it on. */
  microTurns: integer("micro_turns").notNull().default(0),
  /** What micro-compaction remembers between its passes (context section 11). */
  microState: jsonb("micro_state").$type<Record<string, unknown>>().notNull().default({}),
  /** Set by whoever asks for a compaction while a run is on: the focus, empty for none. The run takes it up (G9). */
  forceCompaction: text("force_compaction"),
  leaseHolder: text("lease_holder"),
  leaseEpoch: bigint("lease_epoch", { mode: "number" }).notNull().default(0),
  leaseExpiresAt: time("lease_expires_at"),
  /** Chosen by the Worker for each take: a take that is sent twice, its answer lost, is the same one. */
  leaseToken: text("lease_token"),
  /** Renewals end a fixed time after this, whatever progress there is. */
  leaseTakenAt: time("lease_taken_at"),
  /** A hard cancel of the holder. Here and not in `runs`, so that a commit and a cancel meet in one row: exactly one wins (M2). */
  cancelRequestedAt: time("cancel_requested_at"),
  /** The run that waits for its caller's tool results: the session is busy without a lease until then. */
  waitingRunId: text("waiting_run_id"),
  waitingUntil: time("waiting_until"),
});

/** The log: append-only, the ground truth. A trigger (in the migrations) rejects UPDATE, and DELETE outside an erasure. */
export const messages = pgTable(
  "messages",
  {
    sessionId: text("session_id")
      .notNull()
      .references(() => sessions.id),
    seq: bigint("seq", { mode: "number" }).notNull(),
    id: text("id").notNull(),
    role: text("role").$type<"user" | "assistant">().notNull(),
    origin: text("origin").$type<"user" | "event" | "assistant" | "tool" | "injected">().notNull(),
    content: jsonText("content").notNull(),
    media: text("media").array().notNull().default([]),
    calls: text("calls").array().notNull().default([]),
    tokens: integer("tokens").notNull(),
    bytes: integer("bytes").notNull(),
    runId: text("run_id"),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.sessionId, t.seq] }), uniqueIndex("messages_id").on(t.id)],
);

/**
 * One row per generation: what it covers and says, and its receipt. Immutable but for `voided_at` and `tokens_read`, each set once;
 * a trigger (in the migrations) enforces it.
 */
export const compactions = pgTable(
  "compactions",
  {
    sessionId: text("session_id")
      .notNull()
      .references(() => sessions.id),
    generation: bigint("generation", { mode: "number" }).notNull(),
    /** The generation that it was made from; 0 for none. */
    baseGeneration: bigint("base_generation", { mode: "number" }).notNull(),
    /** Chosen by the Worker: a commit that is sent twice stores one (M3). */
    attemptId: text("attempt_id").notNull().unique(),
    runId: text("run_id"),
    /** Rows outside of it, rewound and hidden ones aside, are the kept slice (V3). */
    covered: seqRanges("covered").notNull(),
    coveredHash: text("covered_hash").notNull(),
    pinnedSeq: bigint("pinned_seq", { mode: "number" }),
    pinnedText: text("pinned_text"),
    reason: text("reason").notNull(),
    summary: text("summary").notNull(),
    /** What is rendered from the rows (S2). */
    sections: jsonText("sections").notNull(),
    promptVersion: integer("prompt_version").notNull(),
    prefixVersion: integer("prefix_version").notNull(),
    /** Estimates of the request, in tokens. */
    tokensBefore: integer("tokens_before").notNull(),
    tokensAfter: integer("tokens_after").notNull(),
    /** Prompt size of the first answered call with this generation; null until there is one. */
    tokensRead: integer("tokens_read"),
    /** Messages that the model no longer sees. */
    evicted: integer("evicted").notNull(),
    /** Null where the file could not be written: the handoff then names the API's list of messages (M1). */
    historyPath: text("history_path"),
    historyBytes: bigint("history_bytes", { mode: "number" }),
    historySha256: text("history_sha256"),
    /** Null where no model was asked. */
    model: text("model"),
    usage: jsonb("usage").$type<Record<string, number>>(),
    costUsd: numeric("cost_usd", { mode: "number" }),
    createdAt: createdAt(),
    voidedAt: time("voided_at"),
  },
  (t) => [primaryKey({ columns: [t.sessionId, t.generation] })],
);

/** One row per change of what is sent (V2). Append-only, as the log is. */
export const viewRevisions = pgTable(
  "view_revisions",
  {
    sessionId: text("session_id")
      .notNull()
      .references(() => sessions.id),
    revision: bigint("revision", { mode: "number" }).notNull(),
    attemptId: text("attempt_id").notNull().unique(),
    /** 0 for none. */
    generation: bigint("generation", { mode: "number" }).notNull(),
    clippedBefore: bigint("clipped_before", { mode: "number" }).notNull(),
    clipTokens: integer("clip_tokens").notNull(),
    thinkingFloor: bigint("thinking_floor", { mode: "number" }).notNull(),
    /** Ids of calls. */
    demoted: text("demoted").array().notNull().default([]),
    /** What the view shows of skills that were loaded (R5). */
    skills: jsonText("skills").notNull().default("[]"),
    hidden: seqRanges("hidden").notNull().default("{}"),
    volatileHash: text("volatile_hash"),
    reason: text("reason").notNull(),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.sessionId, t.revision] })],
);

/** Input that arrived while a run was on, until the lease holder moves it into the log (M5). */
export const inputs = pgTable(
  "inputs",
  {
    id: text("id").primaryKey(),
    sessionId: text("session_id")
      .notNull()
      .references(() => sessions.id, { onDelete: "cascade" }),
    /** Order of arrival. */
    position: bigint("position", { mode: "number" }).generatedAlwaysAsIdentity(),
    /** The queued run that it is the input of; null for input that joins whichever run holds the session. */
    runId: text("run_id"),
    origin: text("origin").$type<"user" | "event">().notNull(),
    content: jsonText("content").notNull(),
    media: text("media").array().notNull().default([]),
    tokens: integer("tokens").notNull(),
    bytes: integer("bytes").notNull(),
    createdAt: createdAt(),
  },
  (t) => [index("inputs_session").on(t.sessionId, t.position), index("inputs_run").on(t.runId)],
);

export const runs = pgTable(
  "runs",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id")
      .notNull()
      .references(() => tenants.id),
    sessionId: text("session_id")
      .notNull()
      .references(() => sessions.id),
    keyId: text("key_id"),
    status: text("status")
      .$type<"queued" | "running" | "requires_action" | "completed" | "failed" | "cancelled">()
      .notNull(),
    trigger: text("trigger").$type<"api" | "trigger" | "maintenance" | "subagent">().notNull(),
    /** Queued runs of a session start in this order, those that interrupt first. */
    position: bigint("position", { mode: "number" }).generatedAlwaysAsIdentity(),
    /** Goes before what was queued earlier: its request interrupted the run before it. */
    interrupts: boolean("interrupts").notNull().default(false),
    /** What the request asked of this run alone: `max_steps` and the like. */
    options: jsonb("options").$type<Record<string, unknown>>().notNull().default({}),
    /** Told of the run's end by HTTP. */
    callbackUrl: text("callback_url"),
    /** The trigger and the delivery that made it. */
    triggerId: text("trigger_id"),
    deliveryId: text("delivery_id"),
    model: text("model").notNull(),
    idempotencyKey: text("idempotency_key"),
    /** SHA-256 of the request that the idempotency key stands for. */
    requestHash: text("request_hash"),
    inputSeq: bigint("input_seq", { mode: "number" }),
    stateJson: jsonb("state_json").$type<Record<string, unknown>>().notNull().default({}),
    /** Text of the message being written, for a client that attaches in the middle of it. */
    draft: text("draft"),
    stopReason: text("stop_reason"),
    outputText: text("output_text"),
    steps: integer("steps").notNull().default(0),
    inputTokens: bigint("input_tokens", { mode: "number" }).notNull().default(0),
    outputTokens: bigint("output_tokens", { mode: "number" }).notNull().default(0),
    cacheReadTokens: bigint("cache_read_tokens", { mode: "number" }).notNull().default(0),
    cacheWriteTokens: bigint("cache_write_tokens", { mode: "number" }).notNull().default(0),
    costUsd: numeric("cost_usd", { mode: "number" }),
    error: jsonb("error").$type<{ type: string; code: string; message: string; retryable: boolean }>(),
    /** Round trips to the database and time not spent waiting for the provider, as the Worker counted them. */
    dbRoundTrips: integer("db_round_trips"),
    overheadMs: integer("overhead_ms"),
    /** Starts after a Worker died in the middle, the first start included; a hand-over is none. */
    attempts: integer("attempts").notNull().default(1),
    /** Left at a step boundary for another Worker to go on. */
    handedOver: boolean("handed_over").notNull().default(false),
    /** Time that earlier parts of the run took of the turn's limit, in ms. */
    spentMs: integer("spent_ms").notNull().default(0),
    cancelRequestedAt: time("cancel_requested_at"),
    createdAt: createdAt(),
    startedAt: time("started_at"),
    finishedAt: time("finished_at"),
    /** Its events have been removed by age. */
    eventsExpired: boolean("events_expired").notNull().default(false),
  },
  (t) => [
    unique("runs_idempotency").on(t.tenantId, t.idempotencyKey),
    index("runs_keyed").on(t.createdAt).where(sql`idempotency_key is not null`),
    index("runs_with_events").on(t.finishedAt).where(sql`not events_expired`),
    index("runs_session").on(t.sessionId, t.id),
    index("runs_tenant").on(t.tenantId, t.id),
    index("runs_unfinished").on(t.sessionId, t.position).where(sql`status in ('queued', 'running', 'requires_action')`),
    index("runs_finished").on(t.finishedAt),
  ],
);

/** Results of an open batch that cannot be stored as a message yet: the batch stays whole until every call has one (M7). */
export const toolAnswers = pgTable(
  "tool_answers",
  {
    runId: text("run_id")
      .notNull()
      .references(() => runs.id, { onDelete: "cascade" }),
    toolUseId: text("tool_use_id").notNull(),
    /** JSON text of the `tool_result` block's content. */
    content: jsonText("content").notNull(),
    isError: boolean("is_error").notNull().default(false),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.toolUseId] })],
);

/** The durable events of a session's runs, numbered per session, for attaching to a stream. */
export const runEvents = pgTable(
  "run_events",
  {
    sessionId: text("session_id")
      .notNull()
      .references(() => sessions.id),
    n: bigint("n", { mode: "number" }).notNull(),
    runId: text("run_id").notNull(),
    type: text("type").notNull(),
    /** What is particular to the event; the envelope (session, run, time) comes from the columns. */
    data: jsonText("data").notNull(),
    /** The row that the event is about, whose content a reader joins instead of finding a second copy here. */
    messageSeq: bigint("message_seq", { mode: "number" }),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.sessionId, t.n] }), index("run_events_run").on(t.runId, t.n)],
);

/** One row per provider call. */
export const usageRecords = pgTable(
  "usage_records",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id").notNull(),
    sessionId: text("session_id").notNull(),
    runId: text("run_id"),
    keyId: text("key_id"),
    user: text("user_id"),
    purpose: text("purpose").$type<"turn" | "summarize" | "subagent">().notNull(),
    model: text("model").notNull(),
    inputTokens: integer("input_tokens").notNull(),
    outputTokens: integer("output_tokens").notNull(),
    cacheReadTokens: integer("cache_read_tokens").notNull(),
    cacheWriteTokens: integer("cache_write_tokens").notNull(),
    /** List price; null for a model without one. */
    costUsd: numeric("cost_usd", { mode: "number" }),
    createdAt: createdAt(),
  },
  (t) => [
    index("usage_tenant_time").on(t.tenantId, t.createdAt),
    index("usage_session").on(t.sessionId),
    index("usage_model_time").on(t.model, t.createdAt),
  ],
);

/** Inbound triggers: what makes turns from outside (api.md). */
export const triggers = pgTable(
  "triggers",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id")
      .notNull()
      .references(() => tenants.id),
    name: text("name").notNull().default(""),
    type: text("type").$type<"webhook" | "cron">().notNull(),
    enabled: boolean("enabled").notNull().default(true),
    /** Everything but secrets: session settings, verification, templates, filters, answers, schedule; checked by the API's schema. */
    config: jsonb("config").$type<Record<string, unknown>>().notNull(),
    /** `[{id, secret, expires_at}]`, newest first: an older one is accepted until it expires. */
    secrets: jsonb("secrets").$type<readonly Record<string, unknown>[]>().notNull().default([]),
    /** When a `cron` trigger is due next. */
    nextAt: time("next_at"),
    createdAt: createdAt(),
    updatedAt: time("updated_at").notNull().default(sql`hango_now()`),
  },
  (t) => [
    index("triggers_tenant").on(t.tenantId, t.id),
    index("triggers_due").on(t.nextAt).where(sql`type = 'cron' and enabled`),
  ],
);

/** What a trigger received, stored before it is answered. */
export const deliveries = pgTable(
  "deliveries",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id").notNull(),
    triggerId: text("trigger_id")
      .notNull()
      .references(() => triggers.id, { onDelete: "cascade" }),
    /** The sender's id of the event: a second delivery of it makes no second run. */
    eventId: text("event_id"),
    status: text("status")
      .$type<"refused" | "ignored" | "duplicate" | "waiting" | "accepted" | "failed" | "completed">()
      .notNull(),
    /** Why it was refused, ignored or failed: a code of a closed list. */
    reason: text("reason"),
    /** Headers that say what it is, secrets and signatures left out. */
    headers: jsonb("headers").$type<Record<string, string>>().notNull().default({}),
    /** The body as received; null where it was refused unread, or was redacted by retention. */
    payload: text("payload"),
    /** The caller key of the session that it goes to. */
    sessionKey: text("session_key"),
    sessionId: text("session_id"),
    runId: text("run_id"),
    /** Not before this: the end of the debounce window, or of a retry's wait. */
    dueAt: time("due_at"),
    attempts: integer("attempts").notNull().default(0),
    /** How the guaranteed reply went: pending, delivered, failed; null where none is wanted. */
    replyStatus: text("reply_status"),
    replyAttempts: integer("reply_attempts").notNull().default(0),
    createdAt: createdAt(),
    updatedAt: time("updated_at").notNull().default(sql`hango_now()`),
  },
  (t) => [
    uniqueIndex("deliveries_event")
      .on(t.triggerId, t.eventId)
      .where(sql`status <> 'refused' and status <> 'duplicate'`),
    index("deliveries_trigger").on(t.triggerId, t.id),
    index("deliveries_due").on(t.dueAt).where(sql`status = 'waiting'`),
    index("deliveries_body").on(t.triggerId, sql`md5(payload)`),
    index("deliveries_accepted").on(t.runId).where(sql`status = 'accepted'`),
    index("deliveries_reply").on(t.dueAt).where(sql`reply_status = 'pending'`),
    index("deliveries_run").on(t.runId),
    index("deliveries_session").on(t.sessionId),
    index("deliveries_payload").on(t.createdAt).where(sql`payload is not null`),
  ],
);

/** Outbound subscriptions: who is told of what happens in a tenant's sessions. */
export const webhookEndpoints = pgTable(
  "webhook_endpoints",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id")
      .notNull()
      .references(() => tenants.id),
    url: text("url").notNull(),
    description: text("description").notNull().default(""),
    enabled: boolean("enabled").notNull().default(true),
    /** Event types; empty for all. */
    events: text("events").array().notNull().default([]),
    secrets: jsonb("secrets").$type<readonly Record<string, unknown>[]>().notNull().default([]),
    createdAt: createdAt(),
    updatedAt: time("updated_at").notNull().default(sql`hango_now()`),
  },
  (t) => [index("webhook_endpoints_tenant").on(t.tenantId, t.id)],
);

/** One row per event and receiver, written in the transaction that the event is part of (an outbox), sent through the queue. */
export const webhookDeliveries = pgTable(
  "webhook_deliveries",
  {
    id: text("id").primaryKey(),
    tenantId: text("tenant_id").notNull(),
    /** Null for the `callback_url` of a run. */
    endpointId: text("endpoint_id").references(() => webhookEndpoints.id, { onDelete: "cascade" }),
    sessionId: text("session_id").notNull(),
    runId: text("run_id"),
    url: text("url").notNull(),
    eventType: text("event_type").notNull(),
    /** The body, signed and sent byte for byte at every attempt; empty once it was removed, by age or with its session. */
    payload: text("payload").notNull(),
    status: text("status").$type<"pending" | "delivered" | "failed">().notNull().default("pending"),
    attempts: integer("attempts").notNull().default(0),
    /** When the next attempt is due; by the database's clock. */
    nextAt: time("next_at").default(sql`hango_now()`),
    /** Status of the newest answer, and why there was none. */
    responseStatus: integer("response_status"),
    error: text("error"),
    createdAt: createdAt(),
    deliveredAt: time("delivered_at"),
  },
  (t) => [
    index("webhook_deliveries_due").on(t.nextAt).where(sql`status = 'pending'`),
    index("webhook_deliveries_endpoint").on(t.endpointId, t.id),
    index("webhook_deliveries_tenant").on(t.tenantId, t.id),
    index("webhook_deliveries_session").on(t.sessionId),
    index("webhook_deliveries_payload").on(t.createdAt).where(sql`payload <> ''`),
  ],
);

/** What the provider says of a model, refreshed off the hot path (E7). Sizes are null where it knows none of that name. */
export const modelProfiles = pgTable("model_profiles", {
  model: text("model").primaryKey(),
  maxInputTokens: integer("max_input_tokens"),
  maxOutputTokens: integer("max_output_tokens"),
  fetchedAt: time("fetched_at").notNull().default(sql`hango_now()`),
});

/** What a repeated POST is answered with, for 24 hours. Turns keep theirs in `runs`. */
export const idempotencyKeys = pgTable(
  "idempotency_keys",
  {
    tenantId: text("tenant_id").notNull(),
    key: text("key").notNull(),
    requestHash: text("request_hash").notNull(),
    /** Id of what the first request made. */
    resourceId: text("resource_id").notNull(),
    /** The first answer's body, where it is not the resource itself. */
    response: text("response"),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.tenantId, t.key] }), index("idempotency_created").on(t.createdAt)],
);

/** Sessions that are erased, or are being so. */
export const erasures = pgTable(
  "erasures",
  {
    sessionId: text("session_id").primaryKey(),
    tenantId: text("tenant_id").notNull(),
    /** Nothing was left, at a time when nobody could write for the session any more. */
    done: boolean("done").notNull().default(false),
    /** When the sweeper sends it to the queue (again). */
    nextAt: time("next_at").notNull().default(sql`hango_now()`),
    /** When everything was removed the first time. */
    sweptAt: time("swept_at"),
    doneAt: time("done_at"),
    createdAt: createdAt(),
  },
  (t) => [index("erasures_due").on(t.nextAt).where(sql`not done`)],
);

/** When each task of the cron trigger that need not run every minute is due next. */
export const maintenanceTasks = pgTable("maintenance_tasks", {
  name: text("name").primaryKey(),
  nextAt: time("next_at").notNull(),
});
