-- The lowest seq that a turn loads: the rows of `wanted` are counted newest first until the next one would exceed a budget. Rows from
-- `always_from` on count and are loaded whatever they cost. What is loaded never begins with results whose calls stay out (C7).
-- Only rows that are looked at are read, and none of their content, so the cost does not depend on the log's length (V7); the planner's
-- settings keep it from sorting a whole log where its statistics are stale.
CREATE FUNCTION hango_load_from(of_session text, wanted int8multirange, always_from bigint, max_tokens bigint, max_bytes bigint)
RETURNS bigint LANGUAGE plpgsql STABLE SET enable_sort = off SET enable_bitmapscan = off SET enable_seqscan = off AS $$
DECLARE
  part int8range;
  parts int8range[] := (SELECT array_agg(p) FROM unnest(wanted) p);
  message record;
  tokens_left bigint := max_tokens;
  bytes_left bigint := max_bytes;
  first bigint := always_from;
BEGIN
  FOR i IN REVERSE coalesce(array_length(parts, 1), 0) .. 1 LOOP
    part := parts[i];
    FOR message IN SELECT m.seq, m.origin, m.tokens, m.bytes FROM messages m
      WHERE m.session_id = of_session AND m.seq >= lower(part) AND m.seq < upper(part) ORDER BY m.seq DESC
    LOOP
      tokens_left := tokens_left - message.tokens;
      bytes_left := bytes_left - message.bytes;
      IF message.seq < always_from AND (tokens_left < 0 OR bytes_left < 0) THEN
        RETURN first;
      END IF;
      IF message.origin <> 'tool' THEN
        first := least(first, message.seq);
      END IF;
    END LOOP;
  END LOOP;
  RETURN least(first, lower(wanted));
END
$$;
--> statement-breakpoint
-- Records of what was shown stay as they were made. They go only with their session, in a transaction that says so.
CREATE FUNCTION hango_reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND OLD.session_id = current_setting('hango.erasing', true) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
--> statement-breakpoint
-- A generation gets two facts later, each once: the reading, and when it was voided. Rows are compared as text, since json has no equality.
CREATE FUNCTION hango_compaction_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  before compactions := OLD;
BEGIN
  IF OLD.voided_at IS NULL THEN
    before.voided_at := NEW.voided_at;
  END IF;
  IF OLD.tokens_read IS NULL THEN
    before.tokens_read := NEW.tokens_read;
  END IF;
  IF before::text IS DISTINCT FROM NEW::text THEN
    RAISE EXCEPTION 'compactions is append-only: UPDATE refused' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
$$;
--> statement-breakpoint
CREATE TRIGGER compactions_update BEFORE UPDATE ON compactions FOR EACH ROW EXECUTE FUNCTION hango_compaction_changes();
--> statement-breakpoint
CREATE TRIGGER compactions_append_only BEFORE DELETE ON compactions FOR EACH ROW EXECUTE FUNCTION hango_reject_change();
--> statement-breakpoint
CREATE TRIGGER compactions_no_truncate BEFORE TRUNCATE ON compactions FOR EACH STATEMENT EXECUTE FUNCTION hango_reject_change();
--> statement-breakpoint
CREATE TRIGGER view_revisions_append_only BEFORE UPDATE OR DELETE ON view_revisions FOR EACH ROW EXECUTE FUNCTION hango_reject_change();
--> statement-breakpoint
CREATE TRIGGER view_revisions_no_truncate BEFORE TRUNCATE ON view_revisions FOR EACH STATEMENT EXECUTE FUNCTION hango_reject_change();
