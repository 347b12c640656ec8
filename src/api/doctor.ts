/** `/v1/doctor`: whether everything that this deployment stands on works, asked from the inside, for the operator alone. */
import { z } from "@hono/zod-openapi";
import { checkNames } from "../turns/doctor/check.ts";
import { examine } from "../turns/doctor/examine.ts";
import type { App } from "./env.ts";
import { json, operation } from "./operation.ts";

const doctorSchema = z
  .object({
    status: z.enum(["ok", "failed"]).openapi({ description: "`failed` where any check failed." }),
    checks: z.array(
      z.object({
        name: z.enum(checkNames),
        status: z.enum(["ok", "failed", "skipped"]),
        detail: z.string().openapi({ description: "What was found, and what to do. Holds no secret." }),
        duration_ms: z.int().nonnegative(),
      }),
    ),
  })
  .openapi("Doctor");

export const registerDoctor = (app: App): void => {
  operation(
    app,
    {
      method: "get",
      path: "/v1/doctor",
      access: "operator",
      tags: ["service"],
      operationId: "getDoctor",
      summary: "Check everything that the service stands on",
      description:
        "Asks the database, R2, the queue, the model providers and the collector, side by side, each for 10 s at most: a tiny object is put and removed again, a message without work is sent, and no model is called. Answers 200 also where a check failed.",
      responses: { 200: json(doctorSchema, "What was found.") },
    },
    async (c) => {
      const checks = await examine(c.get("deps"), crypto.randomUUID());
      return c.json(
        {
          status: checks.some(({ status }) => status === "failed") ? "failed" : "ok",
          checks: checks.map(({ durationMs, ...check }) => ({ ...check, duration_ms: durationMs })),
        },
        200,
      );
    },
  );
};
