-- The rows of a session at the given seqs, ascending. Each range is one descent into the primary key and nothing else is read, whatever the
-- planner's statistics say of the log's length (V7).
CREATE FUNCTION hango_rows(of_session text, seqs int8multirange)
RETURNS SETOF messages LANGUAGE plpgsql STABLE SET enable_sort = off SET enable_bitmapscan = off SET enable_seqscan = off AS $$
DECLARE
  part int8range;
BEGIN
  FOR part IN SELECT p FROM unnest(seqs) p LOOP
    RETURN QUERY SELECT m.* FROM messages m
      WHERE m.session_id = of_session AND m.seq >= lower(part) AND m.seq < upper(part) ORDER BY m.seq;
  END LOOP;
END
$$;
