/** Sessions made on the way to a turn. */
import type { SessionId, TenantId } from "../protocol/ids.ts";
import { createSession, type NewSession } from "../store/sessions.ts";
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

/**
 * The session that stored settings ask for: those of a trigger, checked when they were stored.
 * @throws ZodError for settings that are no longer taken
 */
export const sessionFromSettings = (
  id: SessionId,
  tenantId: TenantId,
  settings: Readonly<Record<string, unknown>>,
  defaultModel: string,
): Promise<NewSession> => newSessionOf(id, tenantId, createSessionSchema.parse(settings), defaultModel);
