/** Triggers: made, listed, read, changed, deleted; their secrets rotated. */
import { z } from "@hono/zod-openapi";
import { isId } from "../protocol/ids.ts";
import { pageOf } from "../store/pages.ts";
import {
  changeTrigger,
  createTrigger,
  deleteTrigger,
  findTrigger,
  listTriggers,
  rotateSecret,
  type TriggerRecord,
} from "../store/triggers.ts";
import { configOf } from "../webhooks/event.ts";
import { givenBySender, makeSecret, secretProblem } from "../webhooks/secrets.ts";
import type { SchemeName } from "../webhooks/verification.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { claimOf, idempotencyHeaders, idempotencyMismatch, markReplayed } from "./idempotency.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { changedSettings, checkTrigger, firstTick } from "./trigger-check.ts";
import {
  changeTriggerSchema,
  createdTriggerSchema,
  createTriggerSchema,
  secretText,
  showTrigger,
  type TriggerSettings,
  triggerSchema,
} from "./trigger-schema.ts";

const tags = ["triggers"];
const LIST = "triggers";

export const triggerParam = z.object({ id: z.string() });

const originOf = (c: Ctx): string => new URL(c.req.url).origin;

/** The trigger that a path names. @throws ApiError `not_found` */
export const requireTrigger = async (c: Ctx, id: string): Promise<TriggerRecord> => {
  const trigger = isId("trg", id) ? await findTrigger(c.get("deps").db, tenantOf(c), id) : undefined;
  if (trigger === undefined) throw notFound("trigger");
  return trigger;
};

/** What goes into the `config` column. */
const configFrom = ({ type: _, name: __, enabled: ___, ...config }: TriggerSettings) => config;

/** A secret for the scheme: the one that is given, or a new one. @throws ApiError for one that the scheme cannot use */
const secretFor = (c: Ctx, scheme: SchemeName, given: string | undefined) => {
  if (given === undefined && givenBySender(scheme)) {
    throw invalid("secret", `is required with \`${scheme}\`: the sender shows it in its settings`);
  }
  const problem = given === undefined ? null : secretProblem(scheme, given);
  if (problem !== null) throw invalid("secret", problem);
  return { id: c.get("deps").newId("sec"), secret: given ?? makeSecret(scheme) };
};

const registerCreate = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/triggers",
      access: { tenant: "write" },
      tags,
      operationId: "createTrigger",
      summary: "Create a trigger",
      description:
        "A `webhook` trigger has a public address (`url`) that a sender posts to; a `cron` trigger fires by the clock. Both make turns in sessions of their own.",
      request: { headers: idempotencyHeaders, body: jsonBody(createTriggerSchema) },
      responses: { 201: json(createdTriggerSchema, "The trigger, with its secret where one was made.") },
    },
    async (c) => {
      const { db, config, newId, now } = c.get("deps");
      const { secret: givenSecret, ...given } = { secret: undefined, ...c.req.valid("json") };
      checkTrigger(given, config, now());
      const tenantId = tenantOf(c);
      const id = newId("trg");
      const secret = given.type === "webhook" ? secretFor(c, given.verification.scheme, givenSecret) : null;
      const outcome = await createTrigger(
        db,
        {
          id,
          tenantId,
          name: given.name,
          type: given.type,
          enabled: given.enabled,
          config: configFrom(given),
          secret,
          nextAt: firstTick(given, now()),
        },
        await claimOf(c, tenantId, id),
      );
      if (outcome.kind === "mismatch") throw idempotencyMismatch();
      if (outcome.kind === "gone") throw notFound("trigger");
      if (outcome.replayed) markReplayed(c);
      const shown = outcome.replayed || givenSecret !== undefined ? null : (secret?.secret ?? null);
      return c.json({ ...showTrigger(outcome.trigger, originOf(c)), secret: shown }, 201);
    },
  );

const registerList = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/triggers",
      access: { tenant: "read" },
      tags,
      operationId: "listTriggers",
      summary: "List triggers",
      request: { query: z.strictObject(listQuery) },
      responses: { 200: json(listOf(triggerSchema), "A page of triggers.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const rows = await listTriggers(c.get("deps").db, tenantOf(c), pageOf(readPage(LIST, query, cursors.id)));
      const origin = originOf(c);
      return c.json(
        listPage(
          LIST,
          query,
          rows,
          (row) => showTrigger(row, origin),
          ({ id }) => id,
        ),
      );
    },
  );

const registerRead = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/triggers/{id}",
      access: { tenant: "read" },
      tags,
      operationId: "getTrigger",
      summary: "Read a trigger",
      request: { params: triggerParam },
      responses: { 200: json(triggerSchema, "The trigger.") },
    },
    async (c) => c.json(showTrigger(await requireTrigger(c, c.req.valid("param").id), originOf(c))),
  );

/** A change that meets another one starts over so often. */
const MAX_TRIES = 3;

/** When the trigger is due after a change: as before, unless its schedule or its being enabled is what changed. */
const nextAtOf = (before: TriggerRecord, after: TriggerSettings, nowMs: number): string | null => {
  const same =
    after.type === "cron" &&
    before.enabled === after.enabled &&
    JSON.stringify(configOf(before).schedule) === JSON.stringify(after.schedule);
  return same ? before.nextAt : firstTick(after, nowMs);
};

const registerChange = (app: App): void =>
  operation(
    app,
    {
      method: "patch",
      path: "/v1/triggers/{id}",
      access: { tenant: "write" },
      tags,
      operationId: "changeTrigger",
      summary: "Change a trigger",
      description:
        "What is given replaces what was set, and null takes it back. Sessions that exist keep their settings; what is waiting is handled by the new ones.",
      request: { params: triggerParam, body: jsonBody(changeTriggerSchema) },
      responses: { 200: json(triggerSchema, "The trigger after the change.") },
    },
    async (c) => {
      const { db, config, now } = c.get("deps");
      const { id } = c.req.valid("param");
      for (let tries = 1; tries <= MAX_TRIES; tries++) {
        const before = await requireTrigger(c, id);
        const { type, name, enabled } = before;
        const after = changedSettings({ ...before.config, type, name, enabled }, c.req.valid("json"));
        checkTrigger(after, config, now());
        const change = { name: after.name, enabled: after.enabled, config: configFrom(after) };
        const changed = await changeTrigger(db, before, { ...change, nextAt: nextAtOf(before, after, now()) });
        if (changed !== undefined) return c.json(showTrigger(changed, originOf(c)));
      }
      throw new ApiError("unavailable", "The trigger is being changed by others at the moment.", {
        retryAfterSeconds: 1,
      });
    },
  );

const registerDelete = (app: App): void =>
  operation(
    app,
    {
      method: "delete",
      path: "/v1/triggers/{id}",
      access: { tenant: "write" },
      tags,
      operationId: "deleteTrigger",
      summary: "Delete a trigger",
      description: "With its deliveries, payloads included. Its sessions and runs stay.",
      request: { params: triggerParam },
      responses: {
        200: json(
          z.object({ id: z.string(), type: z.literal("trigger"), deleted: z.literal(true) }).openapi("DeletedTrigger"),
          "The trigger is gone.",
        ),
      },
    },
    async (c) => {
      const { id } = c.req.valid("param");
      const found = isId("trg", id) && (await deleteTrigger(c.get("deps").db, tenantOf(c), id));
      if (!found) throw notFound("trigger");
      return c.json({ id, type: "trigger", deleted: true });
    },
  );

/** Default of `overlap_seconds`: time enough to change the secret at the sender. */
const DEFAULT_OVERLAP_SECONDS = 86_400;

const registerRotate = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/triggers/{id}/secrets",
      access: { tenant: "write" },
      tags,
      operationId: "rotateTriggerSecret",
      summary: "Rotate a trigger's secret",
      description:
        "From now on both the new secret and the older ones are accepted; the older ones until `overlap_seconds` are over. Takes no `Idempotency-Key`: the secret is shown once.",
      request: {
        params: triggerParam,
        body: jsonBody(
          z
            .strictObject({
              secret: secretText.optional().openapi({ description: "Default: one is made." }),
              overlap_seconds: z
                .int()
                .min(0)
                .max(30 * 86_400)
                .optional()
                .openapi({ description: `Default: ${DEFAULT_OVERLAP_SECONDS}.` }),
            })
            .openapi("RotateSecret", { example: { overlap_seconds: 3_600 } }),
          false,
        ),
      },
      responses: { 201: json(createdTriggerSchema, "The trigger with its new secret.") },
    },
    async (c) => {
      const { secret: given, overlap_seconds = DEFAULT_OVERLAP_SECONDS } = c.req.valid("json");
      const trigger = await requireTrigger(c, c.req.valid("param").id);
      const { verification } = configOf(trigger);
      if (verification === undefined) throw invalid("id", "is a cron trigger; it has no secret");
      const secret = secretFor(c, verification.scheme, given);
      const rotated = await rotateSecret(c.get("deps").db, tenantOf(c), trigger.id, secret, overlap_seconds);
      if (rotated === undefined) throw notFound("trigger");
      return c.json({ ...showTrigger(rotated, originOf(c)), secret: given === undefined ? secret.secret : null }, 201);
    },
  );

export const registerTriggers = (app: App): void => {
  registerCreate(app);
  registerList(app);
  registerRead(app);
  registerChange(app);
  registerDelete(app);
  registerRotate(app);
};
