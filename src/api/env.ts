/** What a request carries through the app. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Deps } from "../turns/deps.ts";
import type { ErrorCode } from "./errors.ts";
import type { Principal } from "./principal.ts";

export interface AppEnv {
  Variables: {
    deps: Deps;
    requestId: string;
    /** The pattern that the path matched, never the path itself; undefined where it matched none. */
    route: string | undefined;
    /** The code of the error that the request is answered with. */
    errorCode: ErrorCode | undefined;
    /** Who asks; set by the authentication of the operation. */
    principal: Principal | undefined;
    /** The text of a JSON body before its lone surrogates were repaired; undefined where there were none. */
    unrepairedBody: string | undefined;
  };
}

export type App = OpenAPIHono<AppEnv>;
export type Ctx = Context<AppEnv>;

/** The API as data; see `openapi.ts`. */
export type OpenApiDocument = ReturnType<App["getOpenAPI31Document"]>;
