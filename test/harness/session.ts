/** The session of a shape, and the doors through which it is used: as the API and the queue use them, on a Worker of one's choice. */
import type { KeyId, RunId, SessionId, TenantId } from "../../src/protocol/ids.ts";
import type { OnBusy } from "../../src/store/begin-request.ts";
import { LeaseLost } from "../../src/store/errors.ts";
import type { RunRecord } from "../../src/store/runs.ts";
import { begin, type TurnRequest } from "../../src/turns/begin.ts";
import { consume, givenUpTurnMessages, turnMessages } from "../../src/turns/consume.ts";
import type { Deps } from "../../src/turns/deps.ts";
import type { TurnInput } from "../../src/turns/input.ts";
import { executeRun } from "../../src/turns/run.ts";
import { type Lane, type Queued, TOOLS_URL } from "./lane.ts";
import type { ShapePlan } from "./plan.ts";

export interface HarnessSession {
  readonly tenantId: TenantId;
  readonly keyId: KeyId;
  readonly keyHash: string;
  readonly id: SessionId;
}

const TOOLS = [
  {
    type: "http",
    name: "fetch_page",
    description: "Fetches a page.",
    input_schema: { type: "object", properties: { page: { type: "string" } } },
    url: TOOLS_URL,
    idempotent: true,
  },
];

export const settingsOf = (plan: ShapePlan) => ({
  max_tokens: plan.maxTokens,
  ...(plan.thinking ? { thinking: { type: "adaptive" } } : {}),
  context: {
    max_input_tokens: plan.windowTokens,
    trigger_frac: plan.triggerFrac,
    keep_frac: plan.keepFrac,
    tool_arg_max_tokens: plan.clipTokens,
    min_tail_user_messages: plan.minTailUserMessages,
  },
});

/** A tenant with a key and an idle session, by SQL. */
export const makeSession = async (
  lane: Lane,
  model: string,
  settings: object,
  { system, tools }: { readonly system: string | null; readonly tools: unknown } = {
    system: "You help with plans.",
    tools: TOOLS,
  },
): Promise<HarnessSession> => {
  const [tenantId, keyId, id] = [lane.newId("tnt"), lane.newId("key"), lane.newId("ses")];
  const keyHash = `hash of ${keyId}`;
  await lane.sql("insert into tenants (id, name) values ($1, 'harness')", [tenantId]);
  await lane.sql(
    "insert into api_keys (id, tenant_id, hash, prefix, scopes) values ($1, $2, $3, 'hango_', '{read,write,content}')",
    [keyId, tenantId, keyHash],
  );
  await lane.sql(
    `insert into sessions (id, tenant_id, key, user_id, model, system, tools, settings, created_with)
     values ($1, $2, $3, $1, $4, $5, $6::jsonb, $7::jsonb, '')`,
    [id, tenantId, `key of ${id}`, model, system, JSON.stringify(tools), JSON.stringify(settings)],
  );
  await lane.sql("insert into session_heads (session_id) values ($1)", [id]);
  return { tenantId, keyId, keyHash, id };
};

export interface Ask {
  readonly input: TurnInput;
  readonly key: string;
  readonly onBusy: OnBusy;
  readonly background?: boolean;
}

export type Answered =
  | { readonly kind: "ran"; readonly run: RunRecord }
  /** The Worker lost the session in the middle. */
  | { readonly kind: "lost"; readonly runId: RunId }
  | { readonly kind: "queued" | "joined" | "busy" | "replay" | "refused"; readonly runId: RunId | null };

const requestOf = (deps: Deps, session: HarnessSession, ask: Ask): TurnRequest => ({
  keyHash: session.keyHash,
  session: { id: session.id },
  input: ask.input,
  idempotencyKey: ask.key,
  requestHash: `request of ${ask.key}`,
  onBusy: ask.onBusy,
  background: ask.background ?? false,
  options: {},
  callbackUrl: null,
  startedAt: new Date(deps.now()).toISOString(),
});

/** Asks for a turn, and runs it if it may begin: what `POST /v1/sessions/{id}/turns` does. */
export const askFor = async (deps: Deps, session: HarnessSession, ask: Ask): Promise<Answered> => {
  const request = requestOf(deps, session, ask);
  const outcome = await begin(deps, request);
  switch (outcome.kind) {
    case "started":
      try {
        const startedMs = Date.parse(request.startedAt);
        return {
          kind: "ran",
          run: await executeRun(deps, { session: outcome.session, startedMs, sink: () => undefined }),
        };
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        return { kind: "lost", runId: outcome.session.lease.holder };
      }
    case "queued":
    case "joined":
    case "busy":
    case "replay":
      return { kind: outcome.kind, runId: outcome.runId };
    case "unauthenticated":
    case "forbidden":
    case "subagent":
    case "session_not_found":
      return { kind: "refused", runId: null };
    default:
      return outcome satisfies never;
  }
};

/** Deliveries of a message of the queue before it is given up (`wrangler.toml`). */
const MAX_DELIVERIES = 5;

/** Delivers one message, as the platform does. @returns whether it is to come again */
export const deliver = async (deps: Deps, message: Queued, dead = false): Promise<boolean> => {
  let again = false;
  const one = {
    id: message.id,
    body: message.body,
    attempts: message.attempts,
    timestamp: new Date(deps.now()),
    ack: () => undefined,
    retry: () => {
      again = true;
    },
  };
  const queue = dead ? "hango-dead" : "hango";
  const batch = { queue, messages: [one] } as unknown as MessageBatch<unknown>;
  await consume(deps, batch, { handlers: turnMessages, givenUp: givenUpTurnMessages });
  if (!again) return false;
  if (message.attempts < MAX_DELIVERIES) return true;
  return dead ? false : deliver(deps, message, true);
};
