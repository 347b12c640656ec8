/** Whether the bucket keeps what it is given, and the queue takes messages: only the Worker reaches them. */
import type { QueueMessage } from "../queue.ts";
import { type Check, CheckFailed } from "./check.ts";

/** Where the doctor's objects are. Tenants' keys begin with `tenants/`, so no path of theirs leads here. */
export const DOCTOR_PREFIX = "doctor/";

const CONTENT = "hango doctor";

const words = (error: unknown): string => (error instanceof Error ? error.message : "unknown error");

export interface FilesCheck {
  readonly bucket: Pick<R2Bucket, "put" | "get" | "delete">;
  /** Of this look alone: R2 takes one write a second for a key. */
  readonly id: string;
  readonly timeoutMs: number;
}

/** Writes an object, reads it and deletes it. Where the last is not reached, a few bytes stay under `doctor/`. */
export const filesCheck = ({ bucket, id, timeoutMs }: FilesCheck): Check => ({
  name: "files",
  timeoutMs,
  look: async () => {
    const key = `${DOCTOR_PREFIX}${id}`;
    const step = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      try {
        return await work();
      } catch (error) {
        throw new CheckFailed(`R2 did not ${what} an object: ${words(error)}; see the binding FILES in wrangler.toml`);
      }
    };
    await step("write", () => bucket.put(key, CONTENT));
    const found = await step("read", async () => (await bucket.get(key))?.text());
    await step("delete", () => bucket.delete(key));
    if (found !== CONTENT) throw new CheckFailed("R2 gave back something else than was written");
    return "R2 wrote, read and deleted an object";
  },
});

export interface QueueCheck {
  readonly queue: { send(message: QueueMessage): Promise<unknown> };
  readonly timeoutMs: number;
}

/** Sends a message that asks for nothing. That it is delivered cannot be seen from here. */
export const queueCheck = ({ queue, timeoutMs }: QueueCheck): Check => ({
  name: "queue",
  timeoutMs,
  look: async () => {
    await queue.send({ v: 1, type: "ping" }).catch((error: unknown) => {
      throw new CheckFailed(`the queue took no message: ${words(error)}; see the binding QUEUE in wrangler.toml`);
    });
    return "a message was accepted (whether messages are delivered, the queue's own metrics say)";
  },
});
