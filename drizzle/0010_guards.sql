ALTER TABLE "session_heads" ADD COLUMN "summary_timeouts" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "summary_truncations" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "strikes" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "compaction_pause" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "probation_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "probe_id" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "infeasible_skips" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guarded_generation" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guarded_reading" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guarded_hash" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guarded_summary_tokens" integer;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "settled_seq" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "budget_run_id" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "budget_compactions" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "budget_attempts" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guards_model" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guards_provider" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guards_summarizer" text;--> statement-breakpoint
-- What the document held goes into the columns. What was not kept in it begins anew: probation, skips, what two generations came to.
UPDATE "session_heads" SET
  "summary_timeouts" = coalesce(("guard_state" #>> '{cooldown,failures,timeout}')::int, 0),
  "summary_truncations" = coalesce(("guard_state" #>> '{cooldown,failures,truncated}')::int, 0),
  "strikes" = coalesce(("guard_state" ->> 'strikes')::int, 0),
  "guarded_generation" = coalesce(("guard_state" ->> 'generation')::bigint, 0),
  "guarded_reading" = CASE WHEN ("guard_state" ->> 'awaitingReading')::boolean THEN 'awaiting' END,
  "settled_seq" = coalesce(("guard_state" ->> 'newestSeq')::bigint, 0)
WHERE "guard_state" <> '{}';--> statement-breakpoint
UPDATE "session_heads" SET "guards_model" = "calibration" ->> 'model', "guards_provider" = 'anthropic', "guards_summarizer" = "calibration" ->> 'model'
WHERE "calibration" ->> 'model' IS NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" DROP COLUMN "guard_state";
