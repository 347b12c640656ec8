-- The one clock of leases, cooldowns and expiry: the database's, plus an offset that only tests set.
CREATE FUNCTION hango_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT now() + coalesce(nullif(current_setting('hango.clock_offset', true), ''), '0')::interval
$$;
