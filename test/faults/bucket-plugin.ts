/**
 * A plugin of Miniflare: a binding `WIRE` that speaks the protocol of the R2 binding to Miniflare's own R2. It reaches for a service by
 * its inner name, which the tests would tell at once if it changed.
 */
import { z } from "zod";

export const BUCKET_ID = "hango-files";

export const plugins = {
  "r2-wire": {
    options: z.unknown(),
    getBindings: () => [
      {
        name: "WIRE",
        service: { name: "r2:bucket:entry", props: { json: JSON.stringify({ MINIFLARE_NAMESPACE: BUCKET_ID }) } },
      },
    ],
    getNodeBindings: () => ({}),
    getServices: () => [],
  },
};
