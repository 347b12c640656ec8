/** What one request, queue message or cron tick works with. Built at the door (`worker.ts`), handed inwards, kept by nobody. */
import type { Config } from "../config.ts";
import type { NewId } from "../protocol/ids.ts";
import type { Db } from "../store/db.ts";
import type { Content } from "../telemetry/content.ts";
import type { Log } from "../telemetry/log.ts";
import type { Meter } from "../telemetry/meter.ts";
import type { Tracer } from "../telemetry/tracer.ts";
import type { QueueMessage } from "./queue.ts";

export interface Deps {
  readonly config: Config;
  /** The connection of this request, with its own count of round trips. */
  readonly db: Db;
  /** R2: the sessions' files, media and offloads. */
  readonly bucket: R2Bucket;
  readonly queue: Queue<QueueMessage>;
  readonly tracer: Tracer;
  readonly meter: Meter;
  /** What spans say of prompts and answers: nothing, unless `HANGO_CAPTURE_CONTENT` is true. */
  readonly content: Content;
  readonly log: Log;
  readonly newId: NewId;
  /** Ms since the epoch. Paces and measures; never decides about a lease. */
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  readonly fetch: typeof fetch;
  /** Keeps the isolate alive for work that outlives the response. */
  readonly waitUntil: (work: Promise<unknown>) => void;
}
