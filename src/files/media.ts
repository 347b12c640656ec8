/** The media of a session by content hash (rule V10). Texts are taken out and put back by `protocol/media-text.ts`. */
import { sha256Hex } from "../protocol/sha256.ts";
import { removePrefix, withRateLimitRetries } from "./r2.ts";

export interface MediaStore {
  /** Stores a payload as the text that stood in the JSON; a known one is not sent again. @returns its SHA-256, 64 hex digits */
  put(base64Text: string): Promise<string>;
  /** The exact text. @throws MediaMissing */
  get(hash: string): Promise<string>;
  /** Removes everything, for an erasure. @returns how many objects were removed */
  removeAll(): Promise<number>;
}

/** A row refers to media that the store does not hold. */
export class MediaMissing extends Error {
  readonly hash: string;
  constructor(hash: string) {
    super(`the media with hash ${hash} is not stored`);
    this.name = "MediaMissing";
    this.hash = hash;
  }
}

/**
 * Media in R2 under `{root}/media/{hash}`.
 * @param root `tenants/{tenant}/sessions/{session}`, without a slash at the end
 * @param sleep as for `r2FileSystem`
 */
export const r2MediaStore = (bucket: R2Bucket, root: string, sleep: (ms: number) => Promise<void>): MediaStore => ({
  put: async (base64Text) => {
    const hash = await sha256Hex(base64Text);
    const key = `${root}/media/${hash}`;
    if ((await bucket.head(key)) !== null) return hash;
    // Conditional, so that equal payloads stored at once do not write one key twice in a second.
    await withRateLimitRetries(() => bucket.put(key, base64Text, { onlyIf: { etagDoesNotMatch: "*" } }), sleep);
    return hash;
  },
  get: async (hash) => {
    const object = /^[0-9a-f]{64}$/.test(hash) ? await bucket.get(`${root}/media/${hash}`) : null;
    if (object === null) throw new MediaMissing(hash);
    return object.text();
  },
  removeAll: () => removePrefix(bucket, `${root}/media/`),
});
