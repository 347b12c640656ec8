/** What a request carries through the app. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Deps } from "../turns/deps.ts";
import type { Principal } from "./auth.ts";

export interface AppEnv {
  Variables: {
    deps: Deps;
    requestId: string;
    /** Who asks; set by the authentication of the operation. */
    principal: Principal | undefined;
  };
}

export type App = OpenAPIHono<AppEnv>;
export type Ctx = Context<AppEnv>;
