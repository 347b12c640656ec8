/** `/healthz`: whether this deployment can work. */
import { z } from "@hono/zod-openapi";
import { ping } from "../store/health.ts";
import type { App } from "./env.ts";
import { json, operation } from "./operation.ts";

/** Longest wait for the database: load balancers give up after a few seconds. */
const TIMEOUT_MS = 2_000;

const healthSchema = z.object({ status: z.enum(["ok", "unavailable"]), database: z.enum(["ok", "unavailable"]) });

const answersInTime = async (work: Promise<void>): Promise<boolean> => {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const late = new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  return Promise.race([work, late]).then(
    () => true,
    () => false,
  );
};

export const registerHealth = (app: App): void => {
  operation(
    app,
    {
      method: "get",
      path: "/healthz",
      access: "public",
      tags: ["service"],
      operationId: "getHealth",
      summary: "Ask whether the service works",
      responses: {
        200: json(healthSchema, "The database answers."),
        503: json(healthSchema, "The database does not answer."),
      },
    },
    async (c) => {
      const ok = await answersInTime(ping(c.get("deps").db));
      const state = ok ? "ok" : "unavailable";
      return c.json({ status: state, database: state }, ok ? 200 : 503);
    },
  );
};
