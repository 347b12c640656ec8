/** The HTTP surface: what every request passes, and the operations. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { nameRequest } from "../telemetry/otel.ts";
import type { Deps } from "../turns/deps.ts";
import { registerContextRoutes } from "./context.ts";
import { registerDoctor } from "./doctor.ts";
import type { App, AppEnv, Ctx } from "./env.ts";
import { registerErasures } from "./erasures.ts";
import { invalidInput, respondToError } from "./error-response.ts";
import { ApiError } from "./errors.ts";
import { registerFiles } from "./files.ts";
import { registerFork } from "./fork.ts";
import { registerHealth } from "./health.ts";
import { registerHistory } from "./history.ts";
import { registerHooks } from "./hooks.ts";
import { registerImportExport } from "./import-export.ts";
import { registerKeys } from "./keys.ts";
import { registerMessages } from "./messages.ts";
import { measured, rateLimit, requestId, securityHeaders } from "./middleware.ts";
import { allowedMethods, registerDescription } from "./openapi.ts";
import { registerRunControl } from "./run-control.ts";
import { registerRuns } from "./runs.ts";
import { registerSessions } from "./sessions.ts";
import { registerTenants } from "./tenants.ts";
import { registerTriggerDeliveries } from "./trigger-deliveries.ts";
import { registerTriggers } from "./triggers.ts";
import { registerTurns } from "./turns.ts";
import { registerUsage } from "./usage.ts";
import { registerWebhookDeliveries } from "./webhook-deliveries.ts";
import { registerWebhookEndpoints } from "./webhook-endpoints.ts";

/** Builds what one request works with. */
export type MakeDeps = (request: {
  readonly env: unknown;
  readonly request: Request;
  readonly waitUntil: (work: Promise<unknown>) => void;
}) => Deps;

export interface AppOptions {
  readonly makeDeps: MakeDeps;
}

/** The operations of the API, in the order of the documentation. */
const registrations: readonly ((app: App) => void)[] = [
  registerSessions,
  registerErasures,
  registerTurns,
  registerRuns,
  registerRunControl,
  registerMessages,
  registerHistory,
  registerFork,
  registerContextRoutes,
  registerFiles,
  registerImportExport,
  registerTriggers,
  registerTriggerDeliveries,
  registerHooks,
  registerUsage,
  registerWebhookEndpoints,
  registerWebhookDeliveries,
  registerKeys,
  registerTenants,
  registerDoctor,
  registerHealth,
];

const WHERE = {
  query: "query",
  param: "path",
  header: "header",
  json: "body",
  form: "body",
  cookie: "cookie",
} as const;

const waitUntilOf = (c: Ctx) => (work: Promise<unknown>) => c.executionCtx.waitUntil(work);

/**
 * The app. Holds no state of a request and none of a tenant: one may serve an isolate.
 * @example
 * const app = createApp({ makeDeps: ({ env, waitUntil }) => depsOf(env, waitUntil) });
 * export default { fetch: app.fetch };
 */
export const createApp = ({ makeDeps }: AppOptions): App => {
  const app: App = new OpenAPIHono<AppEnv>({
    defaultHook: (result) => {
      if (!result.success) throw invalidInput(result.error, WHERE[result.target]);
    },
  });
  app.use(requestId, securityHeaders, async function deps(c, next) {
    c.set("deps", makeDeps({ env: c.env, request: c.req.raw, waitUntil: waitUntilOf(c) }));
    await next();
  });
  app.use(measured);
  app.use("/v1/*", rateLimit);
  for (const register of registrations) register(app);
  registerDescription(app);
  app.onError((error, c) => respondToError(error, c));
  app.notFound((c) => {
    nameRequest("(no such path)");
    const { pathname } = new URL(c.req.url);
    const allowed = allowedMethods(app, pathname);
    if (allowed.length === 0) throw new ApiError("not_found", "There is no such path; /docs lists those that exist.");
    const allow = allowed.join(", ");
    throw new ApiError("method_not_allowed", `${c.req.method} is not allowed here; allowed: ${allow}.`, {
      headers: { Allow: allow },
    });
  });
  return app;
};
