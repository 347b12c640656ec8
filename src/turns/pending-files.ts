/** Writes the files that a session was created with, whoever comes to it first. */
import { BucketUnavailable } from "../files/bucket-error.ts";
import { parsePath } from "../files/path.ts";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import { clearPendingFiles, loadPendingFiles } from "../store/pending-files.ts";
import type { Deps } from "./deps.ts";
import { sessionFiles } from "./session-files.ts";

/** Writes under way at a time: a Worker has six connections (platform.md, "Workers"). */
const MAX_PARALLEL = 5;

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
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < pending.length; at = next++) {
      const parsed = parsePath(pending[at]?.path ?? "");
      const text = pending[at]?.text ?? "";
      if (parsed.ok) await repeated(deps, () => files.write(parsed.path, text, { ifNoneMatch: "*" }));
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_PARALLEL, pending.length) }, worker));
  await clearPendingFiles(deps.db, tenantId, sessionId);
};
