/** Writes the files that a session was created with, whoever comes to it first. */
import { BucketUnavailable } from "../files/bucket-error.ts";
import { parsePath } from "../files/path.ts";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import { inParallel } from "../protocol/in-parallel.ts";
import { clearPendingFiles, loadPendingFiles } from "../store/pending-files.ts";
import type { Deps } from "./deps.ts";
import { sessionFiles } from "./session-files.ts";

/** Writes under way at a time. */
const MAX_PARALLEL = 4;

/** Waits before a write that failed in passing is made again, in ms. The bucket repeats no conditional write; here a second one does no harm. */
const WAITS_MS: readonly number[] = [50, 400];

const repeated = async (deps: Pick<Deps, "sleep">, write: () => Promise<unknown>): Promise<void> => {
  for (const waitMs of WAITS_MS) {
    try {
      await write();
      return;
    } catch (error) {
      if (!(error instanceof BucketUnavailable)) throw error;
      await deps.sleep(waitMs);
    }
  }
  await write();
};

/**
 * Writes what is still to be written. Safe to do twice, and by two at once: a file that is there is left as it is, so nothing that was changed
 * since is written over.
 * @throws StoreUnavailable, BucketUnavailable; what is left is then written by whoever comes next
 */
export const writePendingFiles = async (deps: Deps, tenantId: TenantId, sessionId: SessionId): Promise<void> => {
  const pending = await loadPendingFiles(deps.db, tenantId, sessionId);
  if (pending.length === 0) return;
  const files = sessionFiles(deps, tenantId, sessionId);
  await inParallel(pending, MAX_PARALLEL, async ({ path, text }) => {
    const parsed = parsePath(path);
    if (parsed.ok) await repeated(deps, () => files.write(parsed.path, text, { ifNoneMatch: "*" }));
  });
  await clearPendingFiles(deps.db, tenantId, sessionId);
};
