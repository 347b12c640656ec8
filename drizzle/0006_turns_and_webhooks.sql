CREATE TABLE "deliveries" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"trigger_id" text NOT NULL,
	"event_id" text,
	"status" text NOT NULL,
	"reason" text,
	"headers" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"payload" text,
	"session_key" text,
	"session_id" text,
	"run_id" text,
	"due_at" timestamp with time zone,
	"attempts" integer DEFAULT 0 NOT NULL,
	"reply_status" text,
	"reply_attempts" integer DEFAULT 0 NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tool_answers" (
	"run_id" text NOT NULL,
	"tool_use_id" text NOT NULL,
	"content" json NOT NULL,
	"is_error" boolean DEFAULT false NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	CONSTRAINT "tool_answers_run_id_tool_use_id_pk" PRIMARY KEY("run_id","tool_use_id")
);
--> statement-breakpoint
CREATE TABLE "triggers" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"name" text DEFAULT '' NOT NULL,
	"type" text NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"config" jsonb NOT NULL,
	"secrets" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"next_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"endpoint_id" text,
	"session_id" text NOT NULL,
	"run_id" text,
	"url" text NOT NULL,
	"event_type" text NOT NULL,
	"payload" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone DEFAULT hango_now(),
	"response_status" integer,
	"error" text,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"delivered_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "webhook_endpoints" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"url" text NOT NULL,
	"description" text DEFAULT '' NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"events" text[] DEFAULT '{}' NOT NULL,
	"secrets" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
DROP INDEX "runs_unfinished";--> statement-breakpoint
ALTER TABLE "inputs" ADD COLUMN "run_id" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "position" bigint NOT NULL GENERATED ALWAYS AS IDENTITY (sequence name "runs_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1);--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "interrupts" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "options" jsonb DEFAULT '{}'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "callback_url" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "trigger_id" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "delivery_id" text;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "handed_over" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "spent_ms" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "cancel_requested_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "started_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "lease_token" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "lease_taken_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "cancel_requested_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "waiting_run_id" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "waiting_until" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "forked_from" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "forked_at_seq" bigint;--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_trigger_id_triggers_id_fk" FOREIGN KEY ("trigger_id") REFERENCES "public"."triggers"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tool_answers" ADD CONSTRAINT "tool_answers_run_id_runs_id_fk" FOREIGN KEY ("run_id") REFERENCES "public"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "triggers" ADD CONSTRAINT "triggers_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_endpoint_id_webhook_endpoints_id_fk" FOREIGN KEY ("endpoint_id") REFERENCES "public"."webhook_endpoints"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "deliveries_event" ON "deliveries" USING btree ("trigger_id","event_id") WHERE status <> 'refused' and status <> 'duplicate';--> statement-breakpoint
CREATE INDEX "deliveries_trigger" ON "deliveries" USING btree ("trigger_id","id");--> statement-breakpoint
CREATE INDEX "deliveries_due" ON "deliveries" USING btree ("due_at") WHERE status = 'waiting';--> statement-breakpoint
CREATE INDEX "deliveries_run" ON "deliveries" USING btree ("run_id");--> statement-breakpoint
CREATE INDEX "deliveries_session" ON "deliveries" USING btree ("session_id");--> statement-breakpoint
CREATE INDEX "triggers_tenant" ON "triggers" USING btree ("tenant_id","id");--> statement-breakpoint
CREATE INDEX "triggers_due" ON "triggers" USING btree ("next_at") WHERE type = 'cron' and enabled;--> statement-breakpoint
CREATE INDEX "webhook_deliveries_due" ON "webhook_deliveries" USING btree ("next_at") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_endpoint" ON "webhook_deliveries" USING btree ("endpoint_id","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_tenant" ON "webhook_deliveries" USING btree ("tenant_id","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_session" ON "webhook_deliveries" USING btree ("session_id");--> statement-breakpoint
CREATE INDEX "webhook_endpoints_tenant" ON "webhook_endpoints" USING btree ("tenant_id","id");--> statement-breakpoint
CREATE INDEX "inputs_run" ON "inputs" USING btree ("run_id");--> statement-breakpoint
CREATE INDEX "runs_finished" ON "runs" USING btree ("finished_at");--> statement-breakpoint
CREATE INDEX "runs_unfinished" ON "runs" USING btree ("session_id","position") WHERE status in ('queued', 'running', 'requires_action');