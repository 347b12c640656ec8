/** How a path names a session: our id, or `key:` and the caller's own key, percent-encoded. */
import { z } from "@hono/zod-openapi";
import { isId } from "../protocol/ids.ts";
import type { SessionRef } from "../store/session-ref.ts";
import { notFound } from "./errors.ts";

const KEY = "key:";
/** Longest key, in characters. */
export const MAX_KEY_CHARS = 255;

/** Longest name of a session, in characters: a key with what stands before it. */
export const KEY_NAME_CHARS = KEY.length + MAX_KEY_CHARS;

/** The path parameter. */
export const sessionParam = z.object({
  id: z.string().openapi({
    description: "The session's id, or `key:` followed by its key (percent-encoded).",
    example: "key:support-ticket-1",
  }),
});

/** Reads a session's name, already decoded; undefined for what cannot name one. */
export const readSessionRef = (name: string): SessionRef | undefined => {
  if (!name.startsWith(KEY)) return isId("ses", name) ? { id: name } : undefined;
  const key = name.slice(KEY.length);
  const possible = key.length > 0 && key.length <= MAX_KEY_CHARS && !key.includes("\u0000") && key.isWellFormed();
  return possible ? { key } : undefined;
};

/**
 * Reads the path parameter, already decoded.
 * @throws ApiError `not_found` for what cannot name a session
 */
export const sessionRefOf = (id: string): SessionRef => {
  const ref = readSessionRef(id);
  if (ref === undefined) throw notFound("session");
  return ref;
};
