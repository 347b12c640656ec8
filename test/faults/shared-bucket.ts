/** One R2 for several Workers: Miniflare's, in a process that no test kills, behind HTTP. */
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { BUCKET_ID } from "./bucket-plugin.ts";

export interface SharedBucket {
  /** Where the protocol of remote bindings is spoken. */
  readonly url: string;
  close(): Promise<void>;
}

/** Undoes what Miniflare's client for remote bindings did to the request of the R2 binding. */
const SCRIPT = `export default {
  fetch: async (request, env) => {
    const headers = new Headers();
    for (const [name, value] of request.headers) {
      if (name.startsWith("mf-header-") && name !== "mf-header-content-length") headers.set(name.slice("mf-header-".length), value);
    }
    const body = request.method === "GET" ? undefined : await request.arrayBuffer();
    return env.WIRE.fetch(request.headers.get("mf-url"), { method: request.method, headers, body });
  },
};`;

export const startSharedBucket = async (): Promise<SharedBucket> => {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: [{ type: "ESModule", path: "bucket.js", contents: SCRIPT }],
      compatibilityDate: "2026-10-01",
      r2Buckets: { FILES: BUCKET_ID },
      host: "127.0.0.1",
      port: 0,
      unsafeBindings: [
        {
          name: "WIRE",
          type: "r2-wire",
          plugin: { package: join(import.meta.dirname, "bucket-plugin.ts"), name: "r2-wire" },
          options: {},
        },
      ],
    }),
  );
  const url = await miniflare.ready;
  return { url: url.href, close: () => miniflare.dispose() };
};
