-- Whether a row is somebody's request (R2): the same predicate as `isUserOriginated` in the Worker, for filters that stand before a limit.
-- A message of a user or an event, with a block that is neither a tool's result nor blank text. White space is what JavaScript's `trim` takes.
-- `json` keeps NUL as an escape, which its operators refuse to read: it is read as a letter.
CREATE FUNCTION hango_user_originated(origin text, content json) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN origin NOT IN ('user', 'event') THEN false ELSE EXISTS (
    SELECT 1 FROM json_array_elements(
      CASE WHEN position('\u0000' IN content::text) = 0 THEN content
        ELSE regexp_replace(content::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1x', 'g')::json END) block
    WHERE coalesce(block->>'type', '') <> 'tool_result'
      AND (coalesce(block->>'type', '') <> 'text' OR btrim(coalesce(block->>'text', ''),
        E' \t\n\u000B\f\r\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF') <> '')
  ) END
$$;
