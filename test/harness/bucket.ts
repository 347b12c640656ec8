/** R2 in memory, as far as hango uses it: its own contract is tested against Miniflare's (`test/worker/files-r2.test.ts`). */

interface Stored {
  readonly bytes: Uint8Array;
  readonly etag: string;
  readonly uploaded: Date;
  readonly options: R2PutOptions;
}

const bytesOf = (value: unknown): Uint8Array => {
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (value instanceof Uint8Array) return value.slice();
  throw new Error("the harness's bucket stores text and bytes");
};

const objectOf = (key: string, { bytes, etag, uploaded, options }: Stored) => ({
  key,
  size: bytes.length,
  etag,
  uploaded,
  ...(options.httpMetadata === undefined ? {} : { httpMetadata: options.httpMetadata }),
  ...(options.customMetadata === undefined ? {} : { customMetadata: options.customMetadata }),
});

/**
 * @param nowMs time of an upload, ms since the epoch
 * @param fails whether writes are refused, as the service words it
 */
export const memoryBucket = (nowMs: () => number, fails: () => boolean): R2Bucket => {
  const objects = new Map<string, Stored>();
  let etags = 0;
  const bucket = {
    head: async (key: string) => {
      const stored = objects.get(key);
      return stored === undefined ? null : objectOf(key, stored);
    },
    get: async (
      key: string,
      options: { readonly range?: { readonly offset: number; readonly length: number } } = {},
    ) => {
      const stored = objects.get(key);
      if (stored === undefined) return null;
      const { range } = options;
      if (range !== undefined && range.offset >= stored.bytes.length)
        throw new Error("get: the range is not satisfiable");
      const bytes =
        range === undefined ? stored.bytes : stored.bytes.subarray(range.offset, range.offset + range.length);
      return {
        ...objectOf(key, stored),
        arrayBuffer: async () => bytes.slice().buffer,
        text: async () => new TextDecoder().decode(bytes),
      };
    },
    put: async (key: string, value: unknown, options: R2PutOptions = {}) => {
      if (fails()) throw new Error("put: We encountered an internal error. Please try again. (10001)");
      const known = objects.get(key);
      const onlyIf = options.onlyIf as R2Conditional | undefined;
      if (onlyIf?.etagMatches !== undefined && known?.etag !== onlyIf.etagMatches) return null;
      if (onlyIf?.etagDoesNotMatch === "*" && known !== undefined) return null;
      etags += 1;
      const stored: Stored = { bytes: bytesOf(value), etag: `etag${etags}`, uploaded: new Date(nowMs()), options };
      objects.set(key, stored);
      return objectOf(key, stored);
    },
    delete: async (keys: string | readonly string[]) => {
      for (const key of typeof keys === "string" ? [keys] : keys) objects.delete(key);
    },
    list: async ({ prefix = "", limit = 1_000, cursor, startAfter }: R2ListOptions = {}) => {
      const from = cursor ?? startAfter;
      const keys = [...objects.keys()]
        .filter((key) => key.startsWith(prefix) && (from === undefined || key > from))
        .sort();
      const page = keys.slice(0, limit);
      const found = page.flatMap((key) => {
        const stored = objects.get(key);
        return stored === undefined ? [] : [objectOf(key, stored)];
      });
      const truncated = keys.length > page.length;
      return { objects: found, delimitedPrefixes: [], truncated, ...(truncated ? { cursor: page.at(-1) } : {}) };
    },
  };
  return bucket as unknown as R2Bucket;
};
