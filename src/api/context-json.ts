/** What the next call of a session would send, and why, in the words of the API. */
import { z } from "@hono/zod-openapi";
import { RawJson } from "../protocol/json-text.ts";
import type { ContextReport } from "../turns/context-report.ts";
import { guardsSchema, showGuards } from "./guards-json.ts";

const range = z.object({ from: z.int(), to: z.int() });
const tokens = z.int();

export const contextSchema = z
  .object({
    type: z.literal("context"),
    session_id: z.string(),
    run_id: z.string().nullable().openapi({ description: "The run that holds the session now." }),
    model: z.string(),
    summarizer_model: z.string(),
    revision: z.int().openapi({ description: "Counts the changes of what is sent; 0 while there was none." }),
    generation: z.int().nullable().openapi({ description: "The compaction that the view shows." }),
    window: z.object({
      tokens: tokens.openapi({ description: "Room for the prompt." }),
      reserve_tokens: tokens.openapi({ description: "Kept free for the answer, where it counts inside the window." }),
      trigger_tokens: tokens.openapi({ description: "Where the session is compacted." }),
      keep_tokens: tokens.openapi({ description: "Most that a compaction keeps verbatim." }),
    }),
    budget: z.object({ system: tokens, tools: tokens, handoff: tokens, kept: tokens, free: tokens }).openapi({
      description: "The window by part, in tokens, by our estimate; `kept` are the messages that are shown.",
    }),
    size: z.object({
      messages: z.int(),
      estimate_tokens: tokens,
      bytes: z.int().openapi({ description: "Of the messages as sent." }),
      media_items: z.int(),
    }),
    projection: z.object({
      tokens: tokens.openapi({ description: "What the provider is expected to count." }),
      basis: z.enum(["reading", "estimate", "count"]),
      factor: z.number().openapi({ description: "Its tokens per token of ours, as learned in this session." }),
      share: z.number().openapi({ description: "Of the window." }),
    }),
    last_reading: z
      .object({ tokens, estimate_tokens: tokens, revision: z.int() })
      .nullable()
      .openapi({ description: "The provider's count of the newest call, where it still holds for the view." }),
    view: z.object({
      covered: z.array(range).openapi({ description: "Messages behind the summary." }),
      hidden: z.array(range).openapi({ description: "Messages that are left out and named in the handoff." }),
      clipped_before: z.int().openapi({ description: "Tool calls and results of earlier messages are shortened." }),
      thinking_floor: z.int().openapi({ description: "Earlier messages are sent without thinking." }),
      demoted_results: z.int(),
      pinned_seq: z.int().nullable(),
    }),
    skills: z
      .object({
        listed: z.array(z.string()),
        skipped: z.array(z.object({ path: z.string(), reason: z.string() })),
      })
      .openapi({
        description: "What the next call would be told of `/skills/`, and what of it is not usable and why.",
      }),
    guards: guardsSchema,
    requested: z.boolean().openapi({ description: "A compaction was asked for and waits for the next call." }),
    next: z.object({
      action: z.enum(["send", "count", "shorten", "compact", "fail"]),
      steps: z.array(z.string()).openapi({
        description: "What changes the view; with `count`, what would if the provider's count is as projected.",
      }),
      reason: z.string(),
    }),
    micro_compaction: z
      .object({
        occupancy: z.number().nullable().openapi({
          description:
            "The request as it is now, as a share of the trigger; null where the model's window is not known.",
        }),
        batch_compactions_avoided: z.int().nullable().openapi({
          description:
            "How often the session would have come to its trigger had no pass been made: an estimate, see docs/micro-compaction.md.",
        }),
        batch_compactions: z.int().openapi({ description: "Compactions of other kinds that there were." }),
        passes: z.int(),
        tokens_saved: tokens.openapi({
          description: "What the passes took out of the view, less what they put there.",
        }),
        summary_tokens: tokens.openapi({ description: "Of the summary in view." }),
        enabled: z.boolean(),
        every_n_turns: z.int().nullable(),
        defrag_tokens: z.int().nullable(),
        turns_since_pass: z.int(),
        failing: z
          .object({ seq: z.int(), failures: z.int() })
          .nullable()
          .openapi({ description: "The exchange that failed last, by its first message; 0 for the summary itself." }),
        passed_over_before: z
          .int()
          .nullable()
          .openapi({ description: "Exchanges before this message are not tried any more: one failed three times." }),
      })
      .openapi({ description: "Compaction between turns, and what it has brought: headroom first." }),
    request: z
      .looseObject({})
      .optional()
      .openapi({ description: "With `view=full`: the body of the next call, byte for byte as it would be sent." }),
    request_note: z.string().nullable().optional().openapi({ description: "What may differ from the call to come." }),
  })
  .openapi("Context");

const share = (part: number, whole: number): number => Math.round((part / Math.max(1, whole)) * 1000) / 1000;

const showMicro = ({ settings, turns, state, summaryTokens, report }: ContextReport["micro"]) => ({
  occupancy: report.occupancy,
  batch_compactions_avoided: report.batchCompactionsAvoided,
  batch_compactions: report.batchCompactions,
  passes: report.passes,
  tokens_saved: report.tokensSaved,
  summary_tokens: summaryTokens,
  enabled: settings !== null,
  every_n_turns: settings?.everyNTurns ?? null,
  defrag_tokens: settings?.defragTokens ?? null,
  turns_since_pass: turns,
  failing: state.failing,
  passed_over_before: state.floor === 0 ? null : state.floor,
});

/** The report; with a request, that one is put in as text. */
export const showContext = (report: ContextReport) => {
  const { view, budgets, size, projection, guards, reading, next, request } = report;
  return {
    type: "context",
    session_id: report.sessionId,
    run_id: report.heldBy,
    model: report.model,
    summarizer_model: report.summariserModel,
    revision: view.revision,
    generation: view.generation?.number ?? null,
    window: {
      tokens: budgets.windowTokens,
      reserve_tokens: budgets.reserveTokens,
      trigger_tokens: budgets.triggerTokens,
      keep_tokens: budgets.keepTokens,
    },
    budget: {
      system: size.system,
      tools: size.tools,
      handoff: size.handoff,
      kept: size.kept,
      free: Math.max(0, budgets.windowTokens - size.tokens),
    },
    size: {
      messages: size.messages,
      estimate_tokens: size.tokens,
      bytes: size.bytes,
      media_items: size.mediaItems,
    },
    projection: {
      tokens: projection.tokens,
      basis: projection.basis,
      factor: report.factor,
      share: share(projection.tokens, budgets.windowTokens),
    },
    last_reading:
      reading === null
        ? null
        : { tokens: reading.tokens, estimate_tokens: reading.estimate, revision: reading.revision },
    view: {
      covered: view.generation?.covered ?? [],
      hidden: view.hidden,
      clipped_before: view.clippedBefore,
      thinking_floor: view.thinkingFloor,
      demoted_results: view.demoted.length,
      pinned_seq: view.generation?.pinned?.seq ?? null,
    },
    skills: { listed: report.skills.listed.map(({ name }) => name), skipped: report.skills.skipped },
    guards: showGuards(guards),
    requested: report.requested !== null,
    next,
    micro_compaction: showMicro(report.micro),
    ...(request === null ? {} : { request: new RawJson(request.body), request_note: request.note }),
  };
};
