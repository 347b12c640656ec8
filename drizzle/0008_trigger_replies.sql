CREATE INDEX "deliveries_body" ON "deliveries" USING btree ("trigger_id",md5(payload));--> statement-breakpoint
CREATE INDEX "deliveries_accepted" ON "deliveries" USING btree ("run_id") WHERE status = 'accepted';--> statement-breakpoint
CREATE INDEX "deliveries_reply" ON "deliveries" USING btree ("due_at") WHERE reply_status = 'pending';