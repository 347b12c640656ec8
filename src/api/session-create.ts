/** A session made on the way to its first turn. */
import { createSession } from "../store/sessions.ts";
import { authenticate, requireScope } from "./auth.ts";
import type { Ctx } from "./env.ts";
import { createSessionSchema, newSessionOf } from "./session-schema.ts";

/**
 * Makes the session of this key with default settings, unless there is one.
 * @throws ApiError `unauthenticated`, `forbidden`, `tenant_suspended`, or `invalid_request` for a key that no session can have
 */
export const ensureSession = async (c: Ctx, key: string): Promise<void> => {
  const { db, config, newId } = c.get("deps");
  const { tenantId } = requireScope(await authenticate(c.get("deps"), c.req.raw.headers), "write");
  const settings = createSessionSchema.parse({ key });
  await createSession(db, await newSessionOf(newId("ses"), tenantId, settings, config.defaultModel), null);
};
