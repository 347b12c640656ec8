ALTER TABLE "sessions" ADD COLUMN "parent_session_id" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "parent_run_id" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "parent_call_id" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "root_session_id" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "subagent_type" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "depth" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "sessions_parent" ON "sessions" USING btree ("parent_session_id","parent_run_id","parent_call_id") WHERE parent_session_id is not null;--> statement-breakpoint
CREATE INDEX "sessions_parent_run" ON "sessions" USING btree ("parent_run_id") WHERE parent_run_id is not null;