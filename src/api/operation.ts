/** How an operation of the API is declared: its schemas, who may call it, and its handler. */
import { createRoute, type RouteConfig, type RouteHandler, z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import type { Scope } from "../store/keys.ts";
import { nameRequest } from "../telemetry/otel.ts";
import { authenticate, keyHashOf, requireOperator, requireScope } from "./auth.ts";
import { body } from "./body.ts";
import type { App, AppEnv } from "./env.ts";
import { errorCodes } from "./errors.ts";

/**
 * Who may call an operation. There is no default: each says it.
 * - `public`: anyone
 * - `tenant`: a tenant's key with this scope
 * - `operator`: the operator's key
 * - `either`: the operator's key, or a tenant's with this scope
 * - `inside`: a tenant's key with this scope, which the handler checks inside its own round trip (`keyHashOf`)
 */
export type Access =
  | "public"
  | "operator"
  | { readonly tenant: Scope }
  | { readonly either: Scope }
  | { readonly inside: Scope };

const authentication = (access: Access, path: string): MiddlewareHandler<AppEnv> =>
  async function authentication(c, next) {
    nameRequest(path);
    c.set("route", path);
    // Asked first for a key at all: nobody's body is read without one.
    if (typeof access === "object" && "inside" in access) await keyHashOf(c.get("deps"), c.req.raw.headers);
    else if (access !== "public") {
      const principal = await authenticate(c.get("deps"), c.req.raw.headers);
      if (access === "operator") requireOperator(principal);
      else if ("tenant" in access) requireScope(principal, access.tenant);
      else if (principal.kind === "tenant") requireScope(principal, access.either);
      c.set("principal", principal);
    }
    await next();
  };

const accessWords = (access: Access): string => {
  if (access === "public") return "Needs no key.";
  if (access === "operator") return "Needs the operator's key.";
  if ("either" in access) return `Needs the operator's key, or a key with the scope \`${access.either}\`.`;
  return `Needs a key with the scope \`${"tenant" in access ? access.tenant : access.inside}\`.`;
};

export const errorSchema = z
  .object({
    type: z.literal("error"),
    error: z.object({
      type: z.string(),
      message: z.string(),
      code: z.enum(errorCodes),
      param: z.string().optional().openapi({ description: "The place in the request." }),
      run_id: z.string().optional().openapi({ description: "With `session_busy`: the run that holds the session." }),
      retryable: z.boolean(),
    }),
    request_id: z.string(),
  })
  .openapi("Error");

const errorResponse = {
  description: "An error; the codes are listed in docs/errors.md.",
  content: { "application/json": { schema: errorSchema } },
} as const;

export interface OperationConfig extends RouteConfig {
  readonly access: Access;
  /** Where the router's pattern differs from the documented path. */
  readonly routingPath?: string;
  /** The handler reads the body itself, unread and unchecked as it came; its schema is for the documentation alone. */
  readonly readsBody?: boolean;
}

type OperationContext<R extends RouteConfig> = Parameters<RouteHandler<R, AppEnv>>[0];

/**
 * Adds an operation to the app: documented, authenticated as it says, its input validated before the handler runs.
 * @example
 * operation(app, { method: "get", path: "/v1/things/{id}", access: { tenant: "read" }, ... }, (c) => c.json(...));
 */
export const operation = <const R extends OperationConfig>(
  app: App,
  config: R,
  handler: (c: OperationContext<R>) => Response | Promise<Response>,
): void => {
  const { access, routingPath, readsBody = false, ...rest }: OperationConfig = config;
  const documented: RouteConfig = {
    ...rest,
    description: [rest.description, accessWords(access)].filter(Boolean).join("\n\n"),
    security: access === "public" ? [] : [{ bearer: [] }],
    responses: { ...rest.responses, default: errorResponse },
  };
  app.openAPIRegistry.registerPath(documented);
  const { body: documentedBody, ...unread } = rest.request ?? {};
  app.openapi(
    createRoute({
      ...documented,
      ...(readsBody ? { request: unread } : {}),
      path: routingPath ?? rest.path,
      hide: true,
      middleware: [authentication(access, rest.path), ...(readsBody ? [] : [body(documentedBody !== undefined)])],
    }),
    // The library ties handlers to typed JSON; ours also answer stored text and bytes, and tests hold them to the schemas.
    handler as unknown as RouteHandler<RouteConfig, AppEnv>,
  );
};

/** A JSON answer of this schema, for `responses`. */
export const json = <S extends z.ZodType>(schema: S, description: string) =>
  ({ description, content: { "application/json": { schema } } }) as const;

/** A JSON body of this schema, for `request`. */
export const jsonBody = <S extends z.ZodType>(schema: S, required = true) =>
  ({ required, content: { "application/json": { schema } } }) as const;
