/** What happens to every request, whatever it asks for. */
import type { MiddlewareHandler } from "hono";
import { http, metric } from "../telemetry/genai.ts";
import { credentialOf } from "./auth.ts";
import type { AppEnv } from "./env.ts";
import { ApiError } from "./errors.ts";
import { newRequestId } from "./secrets.ts";

/** Gives the request an id, which the answer carries and errors repeat. */
export const requestId: MiddlewareHandler<AppEnv> = async (c, next) => {
  c.set("requestId", newRequestId());
  await next();
  c.header("X-Request-Id", c.get("requestId"));
};

/** Methods that a metric names; any other word is one of as many as callers make up. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Measures the request, by its route and never by its path. */
export const measured: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { meter, now } = c.get("deps");
  const startedMs = now();
  await next();
  meter.record(metric.requestDuration, (now() - startedMs) / 1000, {
    [http.method]: METHODS.has(c.req.method) ? c.req.method : "_OTHER",
    [http.route]: c.get("route"),
    [http.status]: c.res.status,
    [http.errorType]: c.get("errorCode"),
  });
};

const SECURITY_HEADERS = {
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
} as const;

/** Answers are data: a browser that is shown one runs, frames, guesses and keeps nothing. A handler may set its own. */
export const securityHeaders: MiddlewareHandler<AppEnv> = async (c, next) => {
  await next();
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) {
    if (!c.res.headers.has(name)) c.header(name, value);
  }
};

/** The longer of the periods that the rate limit binding knows, in seconds: after it the count has started again. */
export const RATE_PERIOD_SECONDS = 60;

/** Limits requests by key, before the database is asked. Without a valid-looking key there is nothing to limit: it is a 401. */
export const rateLimit: MiddlewareHandler<AppEnv> = async (c, next) => {
  const deps = c.get("deps");
  const { rateLimiter } = deps.config;
  const shown = c.req.raw.headers.has("Authorization") || c.req.raw.headers.has("x-api-key");
  if (rateLimiter !== undefined && shown) {
    const credential = await credentialOf(deps, c.req.raw.headers);
    const { success } = await rateLimiter.limit({ key: credential.kind === "key" ? credential.hash : credential.kind });
    if (!success) {
      throw new ApiError("rate_limited", "The key sends too many requests.", {
        retryAfterSeconds: RATE_PERIOD_SECONDS,
      });
    }
  }
  await next();
};
