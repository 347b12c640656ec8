/** The guards of compaction in the words of the API: what holds it back, until when, what ends it, and what is counted. */
import { z } from "@hono/zod-openapi";
import type { ReportedGuards } from "../turns/context-report.ts";

const status = z.enum(["on", "cooldown", "waiting_for_reading", "same_result", "ineffective"]);
const until = z.iso.datetime().nullable();

export const guardsSchema = z
  .object({
    automatic: z.enum(["on", "paused"]).openapi({ description: "Whether the session compacts by itself." }),
    status: status.openapi({
      description:
        "`cooldown`: a summary failed. `waiting_for_reading`: the last compaction was not measured yet. `same_result`: the last two compactions came to the same. `ineffective`: two in a row did not bring the prompt under the trigger.",
    }),
    paused_because: z.string().nullable(),
    paused_until: until.openapi({ description: "Null where no time ends it, or where the next call sets the time." }),
    all: z
      .array(z.object({ status, because: z.string(), until, ends: z.string() }))
      .openapi({ description: "Everything that holds it back, the first that counts first, with what ends it." }),
    cooldown: z
      .object({
        until,
        timeouts_in_a_row: z.int(),
        truncations_in_a_row: z.int(),
        last_failure: z.string().nullable().openapi({ description: "Of the newest summary; null where it was made." }),
      })
      .openapi({ description: "After a summary that failed." }),
    effect: z
      .object({
        strikes: z.int().openapi({ description: "Compactions without effect since the last that had one; two block." }),
        same_result: z.boolean(),
        probation_until: until.openapi({ description: "When one try is allowed although blocked." }),
        summaries_skipped: z.int().openapi({ description: "Left out because what they were of was too little." }),
        generation: z.int().nullable().openapi({ description: "The compaction that is judged." }),
        reading: z
          .enum(["awaiting", "over", "under"])
          .nullable()
          .openapi({ description: "What the provider counted since, against the trigger." }),
      })
      .openapi({ description: "Whether compactions help." }),
    turn: z
      .object({ compactions: z.int(), attempts: z.int() })
      .nullable()
      .openapi({ description: "Of the turn that is on; at most three attempts." }),
    learned_with: z
      .object({ model: z.string(), provider: z.string(), summarizer_model: z.string() })
      .nullable()
      .openapi({ description: "Another model clears strikes and probation, another provider the cooldown too." }),
  })
  .openapi("ContextGuards");

export const showGuards = ({ on, state, turn }: ReportedGuards): z.infer<typeof guardsSchema> => {
  const first = on[0];
  const { cooldown, learnedWith } = state;
  return {
    automatic: first === undefined ? "on" : "paused",
    status: first?.status ?? "on",
    paused_because: first?.words ?? null,
    paused_until: first?.until ?? null,
    all: on.map(({ status: name, words, until: ends_at, ends }) => ({
      status: name,
      because: words,
      until: ends_at,
      ends,
    })),
    cooldown: {
      until: cooldown.active ? cooldown.until : null,
      timeouts_in_a_row: cooldown.failures.timeout,
      truncations_in_a_row: cooldown.failures.truncated,
      last_failure: cooldown.reason,
    },
    effect: {
      strikes: state.strikes,
      same_result: state.sameResult,
      probation_until: state.probation?.at ?? null,
      summaries_skipped: state.skips,
      generation: state.generation === 0 ? null : state.generation,
      reading: state.reading,
    },
    turn: turn === null ? null : { compactions: turn.compactions, attempts: turn.attempts },
    learned_with:
      learnedWith === null
        ? null
        : { model: learnedWith.model, provider: learnedWith.provider, summarizer_model: learnedWith.summariser },
  };
};
