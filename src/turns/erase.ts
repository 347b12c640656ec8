/** The objects of an erased session, removed from R2 by the queue. */
import { erasureDue, finishErasure } from "../store/erasures.ts";
import type { Deps } from "./deps.ts";
import { sessionRoot } from "./objects.ts";
import type { EraseObjects } from "./queue.ts";

/** Largest page that R2 lists and deletes at once (platform.md). */
const PAGE = 1_000;

/**
 * Deletes everything under the session's prefix, page by page, and records that it is done. May be called any number of times,
 * also after being cut off; does nothing for a session that is not recorded as erased.
 * @throws StoreUnavailable, or what R2 fails with: the message is then to be delivered again
 */
export const eraseObjects = async (deps: Deps, message: EraseObjects): Promise<void> => {
  if (!(await erasureDue(deps.db, message))) return;
  const prefix = `${sessionRoot(message.tenantId, message.sessionId)}/`;
  let removed = 0;
  for (;;) {
    // From the start every time: what the page before listed is gone.
    const page = await deps.bucket.list({ prefix, limit: PAGE });
    if (page.objects.length > 0) await deps.bucket.delete(page.objects.map(({ key }) => key));
    removed += page.objects.length;
    if (!page.truncated) break;
  }
  await finishErasure(deps.db, message);
  deps.log.info("erased the objects of a session", { session_id: message.sessionId, objects: removed });
};
