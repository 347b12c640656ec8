/** Compactions in the words of the API: receipts, what one did, and what one would do. */
import { z } from "@hono/zod-openapi";
import type { CompactionRecord, DroppedByKind } from "../store/receipts.ts";
import type { RequestedCompaction } from "../turns/compact-on-request.ts";
import { type CompactionPlan, type NotCompacted, notCompacted } from "../turns/plan-compaction.ts";
import { usageJson } from "../turns/usage-json.ts";

const tokens = z.int();
const range = z.object({ from: z.int(), to: z.int() }).openapi({ description: "Seqs, both inclusive." });
const usage = z.object({
  input_tokens: z.int(),
  output_tokens: z.int(),
  cache_read_input_tokens: z.int(),
  cache_creation_input_tokens: z.int(),
});
const cost = z
  .number()
  .nullable()
  .openapi({ description: "List-price estimate; null where no model was asked or its price is not known." });

const dropped = z
  .object({
    user_messages: z.int(),
    event_messages: z.int(),
    assistant_messages: z.int(),
    tool_results: z.int().openapi({ description: "Messages that hold the results of calls." }),
    injected_messages: z.int(),
    tool_calls: z.int(),
    media: z.int(),
  })
  .openapi({ description: "What the model no longer sees verbatim, by kind." });

export const compactionSchema = z
  .object({
    type: z.literal("compaction"),
    session_id: z.string(),
    generation: z.int(),
    base_generation: z.int().openapi({ description: "The generation that it was made from; 0 for none." }),
    run_id: z.string().nullable(),
    reason: z.string().openapi({ description: "`threshold`, `overflow`, `tool`, `manual`, `maintenance` or `micro`." }),
    covered: z.array(range).openapi({ description: "What the summary stands for, its base's part included." }),
    evicted: z.int().openapi({ description: "Messages that it took out of the model's sight." }),
    dropped,
    tokens_before: tokens.openapi({ description: "Of the whole request, by our estimate." }),
    tokens_after: tokens,
    tokens_read: tokens
      .nullable()
      .openapi({ description: "The provider's count of the first call with it; null until there was one." }),
    model: z.string().nullable(),
    prompt_version: z.int(),
    prefix_version: z.int(),
    usage: usage.nullable(),
    cost_usd: cost,
    history: z
      .object({
        path: z.string(),
        sections: z.array(range),
        size_bytes: z.int().nullable(),
        sha256: z.string().nullable(),
      })
      .nullable()
      .openapi({ description: "Where the messages can be read in full; null where the file could not be written." }),
    pinned_seq: z.int().nullable().openapi({ description: "A request that is restated because its turn was open." }),
    created_at: z.iso.datetime(),
    voided_at: z.iso.datetime().nullable(),
  })
  .openapi("Compaction");

const showDropped = ({ messages, toolCalls, media }: DroppedByKind): z.infer<typeof dropped> => ({
  user_messages: messages.user,
  event_messages: messages.event,
  assistant_messages: messages.assistant,
  tool_results: messages.tool,
  injected_messages: messages.injected,
  tool_calls: toolCalls,
  media,
});

/** A receipt. */
export const showCompaction = (record: CompactionRecord): z.infer<typeof compactionSchema> => ({
  type: "compaction",
  session_id: record.sessionId,
  generation: record.generation,
  base_generation: record.base,
  run_id: record.runId,
  reason: record.reason,
  covered: [...record.covered],
  evicted: record.evicted,
  dropped: showDropped(record.dropped),
  tokens_before: record.tokensBefore,
  tokens_after: record.tokensAfter,
  tokens_read: record.tokensRead,
  model: record.model,
  prompt_version: record.promptVersion,
  prefix_version: record.prefixVersion,
  usage: record.usage === null ? null : usageJson(record.usage),
  cost_usd: record.costUsd,
  history:
    record.historyPath === null
      ? null
      : {
          path: record.historyPath,
          sections: [...record.added],
          size_bytes: record.historySizeBytes,
          sha256: record.historySha256,
        },
  pinned_seq: record.pinnedSeq,
  created_at: record.createdAt,
  voided_at: record.voidedAt,
});

const notMade = {
  reason: z.string().nullable().openapi({ description: "Why nothing was compacted; null where it was." }),
  failure: z
    .string()
    .nullable()
    .openapi({ description: "The class of a summary that failed, for instance `timeout` or `would_grow`." }),
};

const steps = z
  .array(z.enum(["clip", "summarise", "demote", "truncate"]))
  .openapi({ description: "What changes the view, in order." });

export const compactResultSchema = z
  .object({
    type: z.literal("compaction_result"),
    session_id: z.string(),
    run_id: z.string(),
    compacted: z.boolean(),
    ...notMade,
    cooldown_seconds: z
      .number()
      .nullable()
      .openapi({ description: "How long no automatic compaction is tried after a failure." }),
    steps,
    tokens_before: tokens.nullable(),
    tokens_after: tokens.nullable(),
    compaction: compactionSchema.nullable(),
  })
  .openapi("CompactionResult");

export const compactionPlanSchema = z
  .object({
    type: z.literal("compaction_plan"),
    session_id: z.string(),
    would_compact: z.boolean(),
    ...notMade,
    reason: z
      .string()
      .nullable()
      .openapi({ description: "Why nothing would be compacted, or what it depends on; null where it would be." }),
    steps,
    boundary: z.int().nullable().openapi({ description: "Seq of the first message that would stay as it is." }),
    ranges: z.array(range).openapi({ description: "What would go behind the summary." }),
    evicted: z.int(),
    dropped,
    tokens_before: tokens.openapi({ description: "Of the whole request, by our estimate." }),
    tokens_after: tokens.openapi({ description: "With a summary of the length that the prompt asks for." }),
    summary: z
      .object({ model: z.string(), calls: z.int(), usage, cost_usd: cost })
      .nullable()
      .openapi({ description: "The call that the summary would take, estimated." }),
  })
  .openapi("CompactionPlan");

export const compactRequestedSchema = z
  .object({
    type: z.literal("compaction_request"),
    run_id: z.string().openapi({ description: "The run that will compact at its next step." }),
    status: z.literal("requested"),
  })
  .openapi("CompactionRequest");

const whyJson = (why: NotCompacted | null) => ({ reason: why?.reason ?? null, failure: why?.failure ?? null });

/** What a compaction did. */
export const showResult = (
  done: Extract<RequestedCompaction, { readonly kind: "done" }>,
): z.infer<typeof compactResultSchema> => {
  const { outcome, receipt } = done;
  const why = notCompacted(outcome);
  const changed = outcome.kind === "changed" ? outcome : null;
  return {
    type: "compaction_result",
    session_id: done.sessionId,
    run_id: done.runId,
    compacted: why === null,
    ...whyJson(why),
    cooldown_seconds: why?.cooldownSeconds ?? null,
    steps: [...(changed?.steps ?? [])],
    tokens_before: changed?.tokensBefore ?? null,
    tokens_after: changed?.tokensAfter ?? null,
    compaction: receipt === null ? null : showCompaction(receipt),
  };
};

/** What a compaction would do. */
export const showPlan = (plan: CompactionPlan): z.infer<typeof compactionPlanSchema> => ({
  type: "compaction_plan",
  session_id: plan.sessionId,
  would_compact: plan.compacts,
  ...whyJson(plan.why),
  steps: [...plan.steps],
  boundary: plan.boundary,
  ranges: [...plan.added],
  evicted: plan.evicted,
  dropped: showDropped(plan.dropped),
  tokens_before: plan.tokensBefore,
  tokens_after: plan.tokensAfter,
  summary:
    plan.summary === null
      ? null
      : {
          model: plan.summary.model,
          calls: plan.summary.calls,
          usage: usageJson(plan.summary.usage),
          cost_usd: plan.summary.costUsd,
        },
});
