/** Erasures: whether an erased session is gone for good. */
import { z } from "@hono/zod-openapi";
import { type ErasureState, findErasure } from "../store/erasures.ts";
import { tenantOf } from "./auth.ts";
import type { App } from "./env.ts";
import { notFound } from "./errors.ts";
import { json, operation } from "./operation.ts";

const erasureParam = z.object({
  id: z
    .string()
    .min(1)
    .max(100)
    .openapi({ param: { name: "id", in: "path" }, description: "The id of the erased session." }),
});

const erasureSchema = z
  .object({
    id: z.string().openapi({ description: "The id of the erased session." }),
    type: z.literal("erasure"),
    status: z.enum(["erasing", "verifying", "done"]).openapi({
      description:
        "`erasing`: rows or objects are still being removed. `verifying`: nothing was left, and it is looked at again when whoever may still have been writing has ended, after 15 minutes. `done`: then, too, nothing was left, in the database and in R2.",
    }),
    created_at: z.iso.datetime(),
    done_at: z.iso.datetime().nullable(),
  })
  .openapi("Erasure");

const statusOf = ({ done, sweptAt }: ErasureState): "erasing" | "verifying" | "done" => {
  if (done) return "done";
  return sweptAt === null ? "erasing" : "verifying";
};

export const registerErasures = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/erasures/{id}",
      access: { tenant: "admin" },
      tags: ["sessions"],
      operationId: "getErasure",
      summary: "See how far an erasure has come",
      request: { params: erasureParam },
      responses: { 200: json(erasureSchema, "The erasure.") },
    },
    async (c) => {
      const state = await findErasure(c.get("deps").db, tenantOf(c), c.req.valid("param").id);
      if (state === undefined) throw notFound("erasure");
      return c.json({
        id: state.sessionId,
        type: "erasure",
        status: statusOf(state),
        created_at: state.createdAt,
        done_at: state.doneAt,
      });
    },
  );
