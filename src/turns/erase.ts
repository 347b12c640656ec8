/** What is left of an erased session, removed by the queue: rows in batches, objects page by page, then a look whether all is gone. */
import { type Erasure, eraseSomeRows, leftRows } from "../store/erase-rows.ts";
import { findErasure, recordSwept } from "../store/erasures.ts";
import type { Deps } from "./deps.ts";
import { sessionRoot } from "./objects.ts";
import type { EraseObjects } from "./queue.ts";

/** Largest page that R2 lists and deletes at once (platform.md). */
const PAGE = 1_000;

/** Batches of rows, and pages of objects, of one message: well within the consumer's 15 minutes. The next message goes on. */
const ROUNDS = 200;

/** Something of an erased session was found after all of it was removed. */
export class ErasureIncomplete extends Error {
  override readonly name = "ErasureIncomplete";
}

/** Does a step until there is nothing to do. @returns whether it came to that within the rounds, and what it removed */
const untilNothing = async (
  step: () => Promise<number>,
): Promise<{ readonly all: boolean; readonly removed: number }> => {
  let removed = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const taken = await step();
    if (taken === 0) return { all: true, removed };
    removed += taken;
  }
  return { all: false, removed };
};

const prefixOf = ({ tenantId, sessionId }: Erasure): string => `${sessionRoot(tenantId, sessionId)}/`;

/** From the start every time: what the page before listed is gone. */
const removePage = async ({ bucket }: Pick<Deps, "bucket">, erasure: Erasure): Promise<number> => {
  const { objects } = await bucket.list({ prefix: prefixOf(erasure), limit: PAGE });
  if (objects.length > 0) await bucket.delete(objects.map(({ key }) => key));
  return objects.length;
};

/**
 * Removes what is left, looks whether anything is there in the database or in R2, and records it when not. May be called any number of
 * times, also after being cut off: it goes on where the last one stopped. Does nothing for a session that is not marked as erased.
 * @throws ErasureIncomplete, StoreUnavailable, or what R2 fails with: the message is then to be delivered again
 */
export const eraseObjects = async (deps: Deps, message: EraseObjects): Promise<void> => {
  const { tenantId, sessionId } = message;
  const state = await findErasure(deps.db, tenantId, sessionId);
  if (state === undefined || state.done) return;
  const rows = await untilNothing(() => eraseSomeRows(deps.db, message));
  // The end of the copy sends for the objects.
  if (rows.all && state.copied) return;
  const objects = rows.all ? await untilNothing(() => removePage(deps, message)) : { all: false, removed: 0 };
  const about = { session_id: sessionId, rows: rows.removed, objects: objects.removed };
  if (!objects.all) {
    await deps.queue.send(message);
    deps.log.info("erased a part of a session", about);
    return;
  }
  const left = await leftRows(deps.db, message);
  const leftObjects = (await deps.bucket.list({ prefix: prefixOf(message), limit: PAGE })).objects.length;
  if (Object.keys(left).length > 0 || leftObjects > 0) {
    deps.log.error("something is left of an erased session", {
      session_id: sessionId,
      rows: JSON.stringify(left),
      objects: leftObjects,
    });
    throw new ErasureIncomplete("something is left of an erased session");
  }
  await recordSwept(deps.db, message, state.settled);
  deps.log.info(state.settled ? "a session is erased for good" : "erased a session", about);
};
