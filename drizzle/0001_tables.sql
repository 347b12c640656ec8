CREATE TABLE "api_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"name" text DEFAULT '' NOT NULL,
	"hash" text NOT NULL,
	"prefix" text NOT NULL,
	"scopes" text[] NOT NULL,
	"expires_at" timestamp with time zone,
	"revoked_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "erasures" (
	"session_id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"done" boolean DEFAULT false NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"tenant_id" text NOT NULL,
	"key" text NOT NULL,
	"request_hash" text NOT NULL,
	"resource_id" text NOT NULL,
	"response" text,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	CONSTRAINT "idempotency_keys_tenant_id_key_pk" PRIMARY KEY("tenant_id","key")
);
--> statement-breakpoint
CREATE TABLE "inputs" (
	"id" text PRIMARY KEY NOT NULL,
	"session_id" text NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "inputs_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"origin" text NOT NULL,
	"content" json NOT NULL,
	"media" text[] DEFAULT '{}' NOT NULL,
	"tokens" integer NOT NULL,
	"bytes" integer NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "messages" (
	"session_id" text NOT NULL,
	"seq" bigint NOT NULL,
	"id" text NOT NULL,
	"role" text NOT NULL,
	"origin" text NOT NULL,
	"content" json NOT NULL,
	"media" text[] DEFAULT '{}' NOT NULL,
	"calls" text[] DEFAULT '{}' NOT NULL,
	"tokens" integer NOT NULL,
	"bytes" integer NOT NULL,
	"run_id" text,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	CONSTRAINT "messages_session_id_seq_pk" PRIMARY KEY("session_id","seq")
);
--> statement-breakpoint
CREATE TABLE "run_events" (
	"session_id" text NOT NULL,
	"n" bigint NOT NULL,
	"run_id" text NOT NULL,
	"type" text NOT NULL,
	"data" json NOT NULL,
	"message_seq" bigint,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	CONSTRAINT "run_events_session_id_n_pk" PRIMARY KEY("session_id","n")
);
--> statement-breakpoint
CREATE TABLE "runs" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"session_id" text NOT NULL,
	"key_id" text,
	"status" text NOT NULL,
	"trigger" text NOT NULL,
	"model" text NOT NULL,
	"idempotency_key" text,
	"request_hash" text,
	"input_seq" bigint,
	"state_json" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"draft" text,
	"stop_reason" text,
	"output_text" text,
	"steps" integer DEFAULT 0 NOT NULL,
	"input_tokens" bigint DEFAULT 0 NOT NULL,
	"output_tokens" bigint DEFAULT 0 NOT NULL,
	"cache_read_tokens" bigint DEFAULT 0 NOT NULL,
	"cache_write_tokens" bigint DEFAULT 0 NOT NULL,
	"cost_usd" numeric,
	"error" jsonb,
	"db_round_trips" integer,
	"overhead_ms" integer,
	"attempts" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"finished_at" timestamp with time zone,
	CONSTRAINT "runs_idempotency" UNIQUE("tenant_id","idempotency_key")
);
--> statement-breakpoint
CREATE TABLE "session_heads" (
	"session_id" text PRIMARY KEY NOT NULL,
	"next_seq" bigint DEFAULT 1 NOT NULL,
	"next_event" bigint DEFAULT 1 NOT NULL,
	"rewound" "int8multirange" DEFAULT '{}' NOT NULL,
	"open_batch_seq" bigint,
	"thinking_floor" bigint DEFAULT 1 NOT NULL,
	"lease_holder" text,
	"lease_epoch" bigint DEFAULT 0 NOT NULL,
	"lease_expires_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"key" text,
	"user_id" text,
	"title" text,
	"model" text NOT NULL,
	"system" text,
	"tools" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"settings" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"metadata" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"created_with" text NOT NULL,
	"todos" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"turns" integer DEFAULT 0 NOT NULL,
	"input_tokens" bigint DEFAULT 0 NOT NULL,
	"output_tokens" bigint DEFAULT 0 NOT NULL,
	"cache_read_tokens" bigint DEFAULT 0 NOT NULL,
	"cache_write_tokens" bigint DEFAULT 0 NOT NULL,
	"cost_usd" numeric DEFAULT 0 NOT NULL,
	"last_input_tokens" integer DEFAULT 0 NOT NULL,
	"compactions" integer DEFAULT 0 NOT NULL,
	"last_run_id" text,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	CONSTRAINT "sessions_tenant_key" UNIQUE("tenant_id","key")
);
--> statement-breakpoint
CREATE TABLE "tenants" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"status" text DEFAULT 'active' NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "usage_records" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"session_id" text NOT NULL,
	"run_id" text,
	"key_id" text,
	"user_id" text,
	"purpose" text NOT NULL,
	"model" text NOT NULL,
	"input_tokens" integer NOT NULL,
	"output_tokens" integer NOT NULL,
	"cache_read_tokens" integer NOT NULL,
	"cache_write_tokens" integer NOT NULL,
	"cost_usd" numeric,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "inputs" ADD CONSTRAINT "inputs_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "run_events" ADD CONSTRAINT "run_events_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "runs" ADD CONSTRAINT "runs_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "runs" ADD CONSTRAINT "runs_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "session_heads" ADD CONSTRAINT "session_heads_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "api_keys_hash" ON "api_keys" USING btree ("hash");--> statement-breakpoint
CREATE INDEX "api_keys_tenant" ON "api_keys" USING btree ("tenant_id","id");--> statement-breakpoint
CREATE INDEX "idempotency_created" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "inputs_session" ON "inputs" USING btree ("session_id","position");--> statement-breakpoint
CREATE UNIQUE INDEX "messages_id" ON "messages" USING btree ("id");--> statement-breakpoint
CREATE INDEX "run_events_run" ON "run_events" USING btree ("run_id","n");--> statement-breakpoint
CREATE INDEX "runs_session" ON "runs" USING btree ("session_id","id");--> statement-breakpoint
CREATE INDEX "runs_tenant" ON "runs" USING btree ("tenant_id","id");--> statement-breakpoint
CREATE INDEX "runs_unfinished" ON "runs" USING btree ("session_id") WHERE status = 'running';--> statement-breakpoint
CREATE INDEX "sessions_tenant_id" ON "sessions" USING btree ("tenant_id","id");--> statement-breakpoint
CREATE INDEX "sessions_tenant_updated" ON "sessions" USING btree ("tenant_id","updated_at");--> statement-breakpoint
CREATE INDEX "sessions_tenant_user" ON "sessions" USING btree ("tenant_id","user_id","id");--> statement-breakpoint
CREATE INDEX "usage_tenant_time" ON "usage_records" USING btree ("tenant_id","created_at");--> statement-breakpoint
CREATE INDEX "usage_session" ON "usage_records" USING btree ("session_id");