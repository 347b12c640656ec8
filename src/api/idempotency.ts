/** `Idempotency-Key`: the same request, sent again within 24 hours, gets the first result (api.md, "Idempotency"). */
import { z } from "@hono/zod-openapi";
import { sha256Hex } from "../protocol/sha256.ts";
import type { Claim } from "../store/idempotency.ts";
import type { Ctx } from "./env.ts";
import { ApiError, invalid } from "./errors.ts";

const HEADER = "Idempotency-Key";

/** Owner of the operator's keys; no tenant id looks like it. */
export const OPERATOR = "operator";

/** For OpenAPI: the header as a parameter. Documented here, checked by `idempotencyKeyOf`. */
export const idempotencyHeaders = z.object({
  "idempotency-key": z.string().optional().openapi({
    description:
      "1 to 255 visible ASCII characters. The same request with the same key, within 24 hours, gets the first result.",
  }),
});

/** The key of a request, or null. @throws ApiError `invalid_request` unless it is 1 to 255 visible ASCII characters */
export const idempotencyKeyOf = (headers: Headers): string | null => {
  const key = headers.get(HEADER);
  if (key === null) return null;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) throw invalid(HEADER, "expected 1 to 255 visible ASCII characters");
  return key;
};

/** SHA-256 of what a key stands for: method, path and body. */
export const requestHashOf = async (c: Ctx): Promise<string> =>
  sha256Hex(`${c.req.method}\n${new URL(c.req.url).pathname}\n${await c.req.text()}`);

/** The claim that a request makes for the resource it is about to create, or null without a key. */
export const claimOf = async (c: Ctx, owner: string, resourceId: string): Promise<Claim | null> => {
  const key = idempotencyKeyOf(c.req.raw.headers);
  return key === null ? null : { owner, key, requestHash: await requestHashOf(c), resourceId };
};

export const idempotencyMismatch = (): ApiError =>
  new ApiError("idempotency_mismatch", "This Idempotency-Key was used for another request in the last 24 hours.", {
    param: HEADER,
  });

/** Marks an answer as the result of an earlier, equal request. */
export const markReplayed = (c: Ctx): void => c.header("Idempotent-Replayed", "true");
