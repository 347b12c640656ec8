-- The log is never rewritten: no row changes, and rows go only with their session, in a transaction that says so.
CREATE FUNCTION hango_reject_log_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND OLD.session_id = current_setting('hango.erasing', true) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'messages is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
--> statement-breakpoint
CREATE TRIGGER messages_append_only BEFORE UPDATE OR DELETE ON messages
  FOR EACH ROW EXECUTE FUNCTION hango_reject_log_change();
--> statement-breakpoint
CREATE TRIGGER messages_no_truncate BEFORE TRUNCATE ON messages
  FOR EACH STATEMENT EXECUTE FUNCTION hango_reject_log_change();
