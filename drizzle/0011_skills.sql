ALTER TABLE "sessions" ADD COLUMN "pending_files" json;--> statement-breakpoint
ALTER TABLE "view_revisions" ADD COLUMN "skills" json DEFAULT '[]' NOT NULL;