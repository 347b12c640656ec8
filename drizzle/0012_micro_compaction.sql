ALTER TABLE "session_heads" ADD COLUMN "micro_turns" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "micro_state" jsonb DEFAULT '{}'::jsonb NOT NULL;