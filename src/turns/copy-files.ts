/** The objects of a forked session, copied from its original: a few in the request that forks, many through the queue. */
import { historyPath } from "../files/history.ts";
import { withRateLimitRetries } from "../files/r2.ts";
import { parseSectionName } from "../files/sections.ts";
import { type Copy, findCopy, finishCopy, noteCopied } from "../store/copies.ts";
import type { Deps } from "./deps.ts";
import { sendForNext } from "./next-run.ts";
import { sessionRoot } from "./objects.ts";
import type { CopyFiles } from "./queue.ts";

/** Objects that one queue message copies, each with a read and a write; a Worker may make 1,000 subrequests. */
const OBJECTS_A_MESSAGE = 300;
/** Objects that the request copies itself. */
export const OBJECTS_A_REQUEST = 20;
/** Open connections that a Worker may have, and bytes that it holds for them: an isolate has 128 MB for everything. */
const OBJECTS_AT_ONCE = 6;
const BYTES_AT_ONCE = 16 * 1_048_576;
/** How far the copying has come is stored after so many. */
const PAGE = 50;

/**
 * Where an object of the original goes: the same place under the fork's root, the history to the fork's own path.
 * @param key below the root, with the leading slash
 * @returns undefined for a section of the history that reaches beyond what was copied of the log
 */
export const placeInFork = (
  key: string,
  { from, sessionId, atSeq }: Pick<Copy, "from" | "sessionId" | "atSeq">,
): string | undefined => {
  const history = `/sections${historyPath(from)}//`;
  if (!key.startsWith(history)) return key;
  const name = key.slice(history.length);
  const section = parseSectionName(name);
  if (section !== undefined && section.last > atSeq) return undefined;
  return `/sections${historyPath(sessionId)}//${name}`;
};

/** Copies what the fork does not have yet: what was written to the fork meanwhile stays. */
const copyObject = async (deps: Deps, source: string, target: string): Promise<void> => {
  const object = await deps.bucket.get(source);
  if (object === null) return; // removed meanwhile
  const bytes = await object.arrayBuffer();
  await withRateLimitRetries(
    () =>
      deps.bucket.put(target, bytes, {
        onlyIf: { etagDoesNotMatch: "*" },
        ...(object.httpMetadata === undefined ? {} : { httpMetadata: object.httpMetadata }),
        ...(object.customMetadata === undefined ? {} : { customMetadata: object.customMetadata }),
      }),
    deps.sleep,
  );
};

/** Objects that are copied at once, as many as a Worker may have open. */
const groupsOf = (objects: readonly R2Object[]): readonly (readonly R2Object[])[] => {
  const groups: R2Object[][] = [];
  let bytes = 0;
  for (const object of objects) {
    const group = groups.at(-1);
    bytes += object.size;
    if (group !== undefined && group.length < OBJECTS_AT_ONCE && bytes <= BYTES_AT_ONCE) group.push(object);
    else {
      groups.push([object]);
      bytes = object.size;
    }
  }
  return groups;
};

/** @returns whether everything is copied */
const copySome = async (deps: Deps, copy: Copy, maxObjects: number): Promise<boolean> => {
  const [source, target] = [sessionRoot(copy.tenantId, copy.from), sessionRoot(copy.tenantId, copy.sessionId)];
  let after = copy.after;
  for (let copied = 0; ; ) {
    const limit = Math.min(PAGE, maxObjects - copied);
    if (limit <= 0) return false;
    const page = await deps.bucket.list({
      prefix: `${source}/`,
      limit,
      ...(after === null ? {} : { startAfter: source + after }),
    });
    for (const group of groupsOf(page.objects)) {
      await Promise.all(
        group.map(async ({ key }) => {
          const place = placeInFork(key.slice(source.length), copy);
          if (place !== undefined) await copyObject(deps, key, target + place);
        }),
      );
    }
    copied += page.objects.length;
    const last = page.objects.at(-1);
    if (!page.truncated || last === undefined) return true;
    after = last.key.slice(source.length);
    await noteCopied(deps.db, copy, after);
  }
};

/**
 * Goes on with the copying of a fork's objects. May be called any number of times, also after being cut off, and by two at once; does
 * nothing for a session that is not being copied to. Whoever waits for the original's objects to be free is told.
 * @returns whether the fork is complete
 * @throws StoreUnavailable, or what R2 fails with: then it is to be called again
 */
export const continueCopy = async (deps: Deps, message: CopyFiles, maxObjects: number): Promise<boolean> => {
  const copy = await findCopy(deps.db, message.tenantId, message.sessionId);
  if (copy === undefined) return true;
  if (!(await copySome(deps, copy, maxObjects))) return false;
  const { erasureWaits, next } = await finishCopy(deps.db, copy);
  deps.log.info("copied the objects of a fork", { session_id: copy.sessionId, forked_from: copy.from });
  // Should the queue not take these, the cron door sends them again.
  await sendForNext(deps, copy, next).catch(() => undefined);
  if (erasureWaits) {
    const erase = { v: 1, type: "erase_objects", tenantId: copy.tenantId, sessionId: copy.from } as const;
    await deps.queue.send(erase).catch(() => undefined);
  }
  return true;
};

/** The queue's part: a share of the objects, then a message for the rest. */
export const copyFiles = async (deps: Deps, message: CopyFiles): Promise<void> => {
  if (!(await continueCopy(deps, message, OBJECTS_A_MESSAGE))) await deps.queue.send(message);
};
