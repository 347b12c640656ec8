/** What only the Worker reaches: the bucket and the queue. */
import type { Deps } from "../deps.ts";
import { type Check, failed, ok } from "./check.ts";

/** Begins the keys of the doctor's objects in R2; those of tenants begin with `tenants/`. */
export const DOCTOR_PREFIX = "doctor/";

/**
 * Stores an object, reads it back and removes it.
 * @param name of the object, one for each check: R2 takes one write a second to a key
 */
export const bucketCheck = ({ bucket, now }: Pick<Deps, "bucket" | "now">, name: string): Check => ({
  name: "r2",
  run: async () => {
    const startedMs = now();
    const key = `${DOCTOR_PREFIX}${name}`;
    const step = async <T>(what: string, work: Promise<T>): Promise<T> => {
      try {
        return await work;
      } catch {
        throw new Error(what);
      }
    };
    try {
      await step("put", bucket.put(key, key));
      const found = await step(
        "get",
        bucket.get(key).then((object) => object?.text()),
      );
      await step("delete", bucket.delete(key));
      if (found !== key) return failed("what was put was not what came back: is FILES an R2 bucket of your own?");
    } catch (error) {
      const what = error instanceof Error ? error.message : "put";
      return failed(`the bucket failed to ${what} a small object: see the binding FILES in wrangler.toml`);
    }
    return ok(`put, got and deleted a small object in ${Math.round(now() - startedMs)} ms`);
  },
});

/** Sends a message that does nothing. What the queue does with it, the doctor does not wait for. */
export const queueCheck = ({ queue }: Pick<Deps, "queue">): Check => ({
  name: "queue",
  run: async () => {
    try {
      await queue.send({ v: 1, type: "ping" });
    } catch {
      return failed("did not take a message: see the binding QUEUE in wrangler.toml, and whether the queue exists");
    }
    return ok("took a message; that it is delivered is not proven by this");
  },
});
