/** `POST /v1/doctor`: what the operator wants to know of a deployment, looked at from the inside. A POST, since it writes an object and sends a message. */
import { z } from "@hono/zod-openapi";
import { checkNames, checkStatuses } from "../turns/doctor/check.ts";
import { examine } from "../turns/doctor/examine.ts";
import type { App } from "./env.ts";
import { json, operation } from "./operation.ts";

const reportSchema = z
  .object({
    type: z.literal("doctor_report"),
    status: z.enum(["ok", "failed"]).openapi({ description: "`failed` where any check has." }),
    checks: z.array(
      z.object({
        name: z.enum(checkNames),
        status: z.enum(checkStatuses),
        detail: z
          .string()
          .openapi({ description: "What was found, or what is wrong and what would help. One line, without secrets." }),
      }),
    ),
  })
  .openapi("DoctorReport");

export const registerDoctor = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/doctor",
      access: "operator",
      tags: ["service"],
      operationId: "examineDeployment",
      summary: "Examine the deployment",
      description:
        "Checks everything that this deployment is bound to, from where it is used: configuration, database and migrations, R2, the queue, the providers, the collector. Writes and deletes one small object, sends one message that asks for nothing, calls no model. `npm run doctor -- URL` prints it.",
      responses: { 200: json(reportSchema, "What was found; also where something does not work.") },
    },
    async (c) => {
      const deps = c.get("deps");
      const checks = await examine(deps, deps.newId("run"));
      const status = checks.some((check) => check.status === "failed") ? "failed" : "ok";
      return c.json({ type: "doctor_report" as const, status, checks: [...checks] });
    },
  );
