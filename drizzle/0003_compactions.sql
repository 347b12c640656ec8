CREATE TABLE "compactions" (
	"session_id" text NOT NULL,
	"generation" bigint NOT NULL,
	"base_generation" bigint NOT NULL,
	"attempt_id" text NOT NULL,
	"run_id" text,
	"covered" "int8multirange" NOT NULL,
	"covered_hash" text NOT NULL,
	"pinned_seq" bigint,
	"pinned_text" text,
	"reason" text NOT NULL,
	"summary" text NOT NULL,
	"sections" json NOT NULL,
	"prompt_version" integer NOT NULL,
	"prefix_version" integer NOT NULL,
	"tokens_before" integer NOT NULL,
	"tokens_after" integer NOT NULL,
	"tokens_read" integer,
	"evicted" integer NOT NULL,
	"history_path" text,
	"history_bytes" bigint,
	"history_sha256" text,
	"model" text,
	"usage" jsonb,
	"cost_usd" numeric,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	"voided_at" timestamp with time zone,
	CONSTRAINT "compactions_session_id_generation_pk" PRIMARY KEY("session_id","generation"),
	CONSTRAINT "compactions_attempt_id_unique" UNIQUE("attempt_id")
);
--> statement-breakpoint
CREATE TABLE "model_profiles" (
	"model" text PRIMARY KEY NOT NULL,
	"max_input_tokens" integer,
	"max_output_tokens" integer,
	"fetched_at" timestamp with time zone DEFAULT hango_now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "view_revisions" (
	"session_id" text NOT NULL,
	"revision" bigint NOT NULL,
	"attempt_id" text NOT NULL,
	"generation" bigint NOT NULL,
	"clipped_before" bigint NOT NULL,
	"clip_tokens" integer NOT NULL,
	"thinking_floor" bigint NOT NULL,
	"demoted" text[] DEFAULT '{}' NOT NULL,
	"hidden" "int8multirange" DEFAULT '{}' NOT NULL,
	"volatile_hash" text,
	"reason" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT hango_now() NOT NULL,
	CONSTRAINT "view_revisions_session_id_revision_pk" PRIMARY KEY("session_id","revision"),
	CONSTRAINT "view_revisions_attempt_id_unique" UNIQUE("attempt_id")
);
--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "revision" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "calibration" json;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "cooldown_until" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "cooldown_reason" text;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "guard_state" jsonb DEFAULT '{}'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "session_heads" ADD COLUMN "force_compaction" text;--> statement-breakpoint
ALTER TABLE "compactions" ADD CONSTRAINT "compactions_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "view_revisions" ADD CONSTRAINT "view_revisions_session_id_sessions_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."sessions"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "usage_model_time" ON "usage_records" USING btree ("model","created_at");