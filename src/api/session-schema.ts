/** A session in the words of the API: what is given, what is shown, and how one becomes the other. */
import { z } from "@hono/zod-openapi";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import { sha256Hex } from "../protocol/sha256.ts";
import type { NewSession, SessionChange, SessionRecord } from "../store/sessions.ts";
import { canonicalJson } from "./canonical.ts";
import { contextSettings } from "./context-settings.ts";
import { MAX_KEY_CHARS } from "./session-ref.ts";
import { skillFiles, skillsSchema } from "./session-skills.ts";
import { subagentsSchema } from "./session-subagents.ts";
import { shownTools, toolSchema, toolsSchema } from "./session-tools.ts";
import { boundedText } from "./text.ts";

/** Most entries of a session's metadata. */
export const MAX_METADATA = 32;

const metadataKey = boundedText(64, 1);
const metadataValue = boundedText(512);
const atMost = (given: object): boolean => Object.keys(given).length <= MAX_METADATA;
const tooMany = `at most ${MAX_METADATA} entries`;

export const modelName = boundedText(200, 1).regex(/^\S+$/, "expected a model name without white space");
export const maxSteps = z.int().min(1).max(100).openapi({ description: "Most model calls of a turn." });
const maxTokens = z.int().min(1).max(1_000_000).openapi({ description: "Longest output of a model call, in tokens." });
export const budget = z.strictObject({ max_usd: z.number().min(0).max(1_000_000) }).openapi({
  description:
    "Most that it may cost, in USD by list prices: looked at before every model call, so it can be passed by one call. A model without a known price reaches no budget.",
});
const thinking = z.strictObject({ type: z.enum(["adaptive", "disabled"]) });
const user = boundedText(255, 1).openapi({
  description: "The end user, as an opaque id of yours; passed to the provider.",
});
const title = boundedText(500);
const system = boundedText(1_000_000).openapi({ description: "The system prompt." });
const key = boundedText(MAX_KEY_CHARS, 1).openapi({
  description: "Your own name for the session; `key:...` then addresses it. Unique per tenant.",
  example: "support-ticket-1",
});

export const createSessionSchema = z
  .strictObject({
    key: key.optional(),
    user: user.optional(),
    title: title.optional(),
    model: modelName.optional().openapi({ description: "Default: the deployment's." }),
    system: system.optional(),
    tools: toolsSchema.optional(),
    subagents: subagentsSchema.optional(),
    max_steps: maxSteps.optional(),
    max_tokens: maxTokens.optional(),
    thinking: thinking.optional(),
    budget: budget.optional(),
    context: contextSettings.optional(),
    metadata: z.record(metadataKey, metadataValue).refine(atMost, tooMany).optional(),
    skills: skillsSchema.optional(),
  })
  .openapi("CreateSession", { example: { key: "support-ticket-1", system: "You are a helpful assistant." } });

/** What of a fork differs from its original. */
export const forkSchema = z
  .strictObject({
    at_seq: z
      .int()
      .min(1)
      .optional()
      .openapi({ description: "The last message to copy; a turn must begin right after it. Default: all." }),
    key: key.optional(),
    user: user.nullable().optional(),
    title: title.nullable().optional(),
    metadata: z.record(metadataKey, metadataValue).refine(atMost, tooMany).optional(),
  })
  .openapi("Fork", { example: { title: "Another way" } });

export type CreateSession = z.infer<typeof createSessionSchema>;

export const changeSessionSchema = z
  .strictObject({
    user: user.nullable().optional(),
    title: title.nullable().optional(),
    model: modelName.optional(),
    system: system.nullable().optional(),
    tools: toolsSchema.optional(),
    subagents: subagentsSchema
      .nullable()
      .optional()
      .openapi({ description: "Replaces what was set; null takes it all back." }),
    max_steps: maxSteps.nullable().optional(),
    max_tokens: maxTokens.nullable().optional(),
    thinking: thinking.nullable().optional(),
    budget: budget.nullable().optional(),
    context: contextSettings
      .nullable()
      .optional()
      .openapi({ description: "Replaces what was set; null takes it all back." }),
    metadata: z
      .record(metadataKey, metadataValue.nullable())
      .refine(atMost, tooMany)
      .optional()
      .openapi({ description: "Merged into what is there; null deletes an entry." }),
  })
  .openapi("ChangeSession", {
    example: { title: "Refund for order 1234", metadata: { team: "billing", draft: null } },
  });

export type ChangeSession = z.infer<typeof changeSessionSchema>;

export const sessionStatus = z.enum(["idle", "queued", "running", "requires_action"]);

export const sessionSchema = z
  .object({
    id: z.string(),
    type: z.literal("session"),
    key: z.string().nullable(),
    user: z.string().nullable(),
    title: z.string().nullable(),
    model: z.string(),
    system: z.string().nullable(),
    tools: z.array(toolSchema).openapi({ description: "Values of headers are shown as `[hidden]`." }),
    subagents: subagentsSchema.nullable(),
    max_steps: z.int().nullable(),
    max_tokens: z.int().nullable(),
    thinking: thinking.nullable(),
    budget: budget.nullable(),
    context: contextSettings.nullable(),
    metadata: z.record(z.string(), z.string()),
    status: sessionStatus,
    usage: z.object({
      turns: z.int(),
      input_tokens: z.int(),
      output_tokens: z.int(),
      cache_read_input_tokens: z.int(),
      cache_creation_input_tokens: z.int(),
      cost_usd: z.number().openapi({ description: "An estimate by list prices." }),
      last_input_tokens: z.int().openapi({ description: "Size of the newest prompt." }),
    }),
    last_run_id: z.string().nullable(),
    forked_from: z.string().nullable().openapi({ description: "The session that it was copied from; it may be gone." }),
    forked_at_seq: z.int().nullable().openapi({ description: "The last message of that session that was copied." }),
    parent: z
      .object({
        session_id: z.string(),
        run_id: z.string(),
        tool_use_id: z.string(),
        subagent_type: z.string(),
        depth: z.int(),
      })
      .nullable()
      .openapi({ description: "Of a subagent's session: the call of `task` that it works for." }),
    rewound: z
      .array(z.object({ first_seq: z.int(), last_seq: z.int() }))
      .openapi({ description: "Messages that were undone; the model is not shown them any more." }),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Session");

/** A session as the API shows it. */
export const showSession = (session: SessionRecord) => ({
  id: session.id,
  type: "session",
  key: session.key,
  user: session.user,
  title: session.title,
  model: session.model,
  system: session.system,
  tools: shownTools(session.tools),
  subagents: session.settings.subagents ?? null,
  max_steps: session.settings.max_steps ?? null,
  max_tokens: session.settings.max_tokens ?? null,
  thinking: session.settings.thinking ?? null,
  budget: session.settings.budget ?? null,
  context: session.settings.context ?? null,
  metadata: session.metadata,
  status: session.status,
  usage: {
    turns: session.turns,
    input_tokens: session.inputTokens,
    output_tokens: session.outputTokens,
    cache_read_input_tokens: session.cacheReadTokens,
    cache_creation_input_tokens: session.cacheWriteTokens,
    cost_usd: session.costUsd,
    last_input_tokens: session.lastInputTokens,
  },
  last_run_id: session.lastRunId,
  forked_from: session.forkedFrom,
  forked_at_seq: session.forkedAtSeq,
  parent:
    session.subagent === null
      ? null
      : {
          session_id: session.subagent.parentSessionId,
          run_id: session.subagent.parentRunId,
          tool_use_id: session.subagent.parentCallId,
          subagent_type: session.subagent.type,
          depth: session.subagent.depth,
        },
  rewound: session.rewound.map(({ from, to }) => ({ first_seq: from, last_seq: to })),
  created_at: session.createdAt,
  updated_at: session.updatedAt,
});

const present = (given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));

/** What is kept in the `settings` column. */
const settingsOf = ({
  subagents,
  max_steps,
  max_tokens,
  thinking,
  budget,
  context,
}: Pick<ChangeSession, "subagents" | "max_steps" | "max_tokens" | "thinking" | "budget" | "context">) =>
  present({ subagents, max_steps, max_tokens, thinking, budget, context });

/** What is compared when a key exists: everything that was asked for but the key itself. */
export const settingsHash = ({ key: _, ...settings }: CreateSession): Promise<string> =>
  sha256Hex(canonicalJson(settings));

/** The session that a request asks for. */
export const newSessionOf = async (
  id: SessionId,
  tenantId: TenantId,
  given: CreateSession,
  defaultModel: string,
): Promise<NewSession> => ({
  id,
  tenantId,
  key: given.key ?? null,
  user: given.user ?? null,
  title: given.title ?? null,
  model: given.model ?? defaultModel,
  system: given.system ?? null,
  tools: given.tools ?? [],
  settings: settingsOf(given),
  metadata: given.metadata ?? {},
  createdWith: await settingsHash(given),
  files: skillFiles(given.skills ?? []),
});

/** The change that a request asks for. */
export const sessionChangeOf = (given: ChangeSession): SessionChange => ({
  ...(given.user === undefined ? {} : { user: given.user }),
  ...(given.title === undefined ? {} : { title: given.title }),
  ...(given.model === undefined ? {} : { model: given.model }),
  ...(given.system === undefined ? {} : { system: given.system }),
  ...(given.tools === undefined ? {} : { tools: given.tools }),
  settings: settingsOf(given),
  metadata: given.metadata ?? {},
});
