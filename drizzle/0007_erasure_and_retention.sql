CREATE TABLE "maintenance_tasks" (
	"name" text PRIMARY KEY NOT NULL,
	"next_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "sessions" ALTER COLUMN "tenant_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "erasures" ADD COLUMN "next_at" timestamp with time zone DEFAULT hango_now() NOT NULL;--> statement-breakpoint
ALTER TABLE "erasures" ADD COLUMN "swept_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "erasures" ADD COLUMN "done_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "events_expired" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "deliveries_payload" ON "deliveries" USING btree ("created_at") WHERE payload is not null;--> statement-breakpoint
CREATE INDEX "erasures_due" ON "erasures" USING btree ("next_at") WHERE not done;--> statement-breakpoint
CREATE INDEX "runs_keyed" ON "runs" USING btree ("created_at") WHERE idempotency_key is not null;--> statement-breakpoint
CREATE INDEX "runs_with_events" ON "runs" USING btree ("finished_at") WHERE not events_expired;--> statement-breakpoint
CREATE INDEX "webhook_deliveries_payload" ON "webhook_deliveries" USING btree ("created_at") WHERE payload <> '';