/** Outbound subscriptions: made, listed, changed, deleted, their secrets rotated. A secret is shown once, when it is made. */
import { z } from "@hono/zod-openapi";
import { type EndpointId, isId } from "../protocol/ids.ts";
import { pageOf } from "../store/pages.ts";
import {
  changeEndpoint,
  createEndpoint,
  deleteEndpoint,
  type EndpointChange,
  findEndpoint,
  listEndpoints,
  MAX_ENDPOINTS,
  rotateSecret,
} from "../store/webhook-endpoints.ts";
import { callbackSecret, newWebhookSecret } from "../webhooks/outbound/callback-secret.ts";
import { tenantOf } from "./auth.ts";
import type { App } from "./env.ts";
import { invalid, notFound } from "./errors.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, jsonBody, operation } from "./operation.ts";
import {
  changeEndpointSchema,
  createdEndpointSchema,
  createEndpointSchema,
  endpointSchema,
  requireOutboundUrl,
  rotateSchema,
  showEndpoint,
} from "./webhook-schema.ts";

/** Endpoints send what models say to wherever they point: making them is an administrator's matter. */
const access = { tenant: "admin" } as const;
const tags = ["webhooks"];
const LIST = "webhook endpoints";

const endpointParam = z.object({ id: z.string() });

/** @throws ApiError `not_found` for what cannot be an endpoint's id */
const endpointIdOf = (id: string): EndpointId => {
  if (!isId("whe", id)) throw notFound("webhook endpoint");
  return id;
};

const registerCreate = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/v1/webhook_endpoints",
      access,
      tags,
      operationId: "createWebhookEndpoint",
      summary: "Subscribe to events",
      description: `At most ${MAX_ENDPOINTS} a tenant. Takes no \`Idempotency-Key\`: the secret is shown once. How to verify what is sent: docs/webhooks.md.`,
      request: { body: jsonBody(createEndpointSchema) },
      responses: { 201: json(createdEndpointSchema, "The endpoint with its secret.") },
    },
    async (c) => {
      const { db, config, newId } = c.get("deps");
      const { url, description = "", enabled, events } = c.req.valid("json");
      requireOutboundUrl("url", url, config.allowPrivateUrls);
      const secret = newWebhookSecret();
      const settings = { url, description, enabled, events };
      const endpoint = await createEndpoint(db, tenantOf(c), newId("whe"), secret, settings);
      if (endpoint === undefined)
        throw invalid("url", `there are ${MAX_ENDPOINTS} endpoints already, and at most ${MAX_ENDPOINTS} are allowed`);
      return c.json({ ...showEndpoint(endpoint), secret }, 201);
    },
  );

const registerRead = (app: App): void => {
  operation(
    app,
    {
      method: "get",
      path: "/v1/webhook_endpoints",
      access,
      tags,
      operationId: "listWebhookEndpoints",
      summary: "List webhook endpoints",
      request: { query: z.strictObject(listQuery) },
      responses: { 200: json(listOf(endpointSchema), "A page of endpoints.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const page = pageOf(readPage(LIST, query, cursors.id));
      const rows = await listEndpoints(c.get("deps").db, tenantOf(c), page);
      return c.json(listPage(LIST, query, rows, showEndpoint, ({ id }) => id));
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/webhook_endpoints/callback_secret",
      access,
      tags,
      operationId: "getCallbackSecret",
      summary: "Read the callback secret",
      description:
        "The secret that what is sent to the `callback_url` of a turn is signed with: one a tenant, and the same until the deployment's `HANGO_ADMIN_KEY` changes; while `HANGO_ADMIN_KEY_PREVIOUS` is set, with that key's secret as well.",
      responses: {
        200: json(
          z.object({ type: z.literal("callback_secret"), secret: z.string() }).openapi("CallbackSecret"),
          "The secret.",
        ),
      },
    },
    async (c) => {
      const secret = await callbackSecret(c.get("deps").config.adminKey, tenantOf(c));
      return c.json({ type: "callback_secret", secret });
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/webhook_endpoints/{id}",
      access,
      tags,
      operationId: "getWebhookEndpoint",
      summary: "Read a webhook endpoint",
      request: { params: endpointParam },
      responses: { 200: json(endpointSchema, "The endpoint.") },
    },
    async (c) => {
      const id = endpointIdOf(c.req.valid("param").id);
      const endpoint = await findEndpoint(c.get("deps").db, tenantOf(c), id);
      if (endpoint === undefined) throw notFound("webhook endpoint");
      return c.json(showEndpoint(endpoint));
    },
  );
};

const registerChange = (app: App): void => {
  operation(
    app,
    {
      method: "patch",
      path: "/v1/webhook_endpoints/{id}",
      access,
      tags,
      operationId: "changeWebhookEndpoint",
      summary: "Change a webhook endpoint",
      description: "What is under way goes to the new `url` from its next attempt on.",
      request: { params: endpointParam, body: jsonBody(changeEndpointSchema) },
      responses: { 200: json(endpointSchema, "The endpoint after the change.") },
    },
    async (c) => {
      const { db, config } = c.get("deps");
      const id = endpointIdOf(c.req.valid("param").id);
      const { url, description, enabled, events } = c.req.valid("json");
      if (url !== undefined) requireOutboundUrl("url", url, config.allowPrivateUrls);
      const change: EndpointChange = {
        ...(url === undefined ? {} : { url }),
        ...(description === undefined ? {} : { description }),
        ...(enabled === undefined ? {} : { enabled }),
        ...(events === undefined ? {} : { events }),
      };
      const endpoint = await changeEndpoint(db, tenantOf(c), id, change);
      if (endpoint === undefined) throw notFound("webhook endpoint");
      return c.json(showEndpoint(endpoint));
    },
  );

  operation(
    app,
    {
      method: "delete",
      path: "/v1/webhook_endpoints/{id}",
      access,
      tags,
      operationId: "deleteWebhookEndpoint",
      summary: "Delete a webhook endpoint",
      description: "With its deliveries: nothing more is sent.",
      request: { params: endpointParam },
      responses: {
        200: json(
          z
            .object({ id: z.string(), type: z.literal("webhook_endpoint"), deleted: z.literal(true) })
            .openapi("DeletedWebhookEndpoint"),
          "The endpoint is gone.",
        ),
      },
    },
    async (c) => {
      const id = endpointIdOf(c.req.valid("param").id);
      if (!(await deleteEndpoint(c.get("deps").db, tenantOf(c), id))) throw notFound("webhook endpoint");
      return c.json({ id, type: "webhook_endpoint", deleted: true });
    },
  );

  operation(
    app,
    {
      method: "post",
      path: "/v1/webhook_endpoints/{id}/rotate_secret",
      access,
      tags,
      operationId: "rotateWebhookSecret",
      summary: "Rotate the secret of a webhook endpoint",
      description:
        "From now on deliveries are signed with the new secret, and with the ones so far until the overlap is over. Takes no `Idempotency-Key`: the secret is shown once.",
      request: { params: endpointParam, body: jsonBody(rotateSchema, false) },
      responses: { 200: json(createdEndpointSchema, "The endpoint with its new secret.") },
    },
    async (c) => {
      const { db, newId } = c.get("deps");
      const id = endpointIdOf(c.req.valid("param").id);
      const secret = newWebhookSecret();
      const overlapSeconds = c.req.valid("json").overlap_seconds;
      const endpoint = await rotateSecret(db, tenantOf(c), id, { id: newId("key"), secret, overlapSeconds });
      if (endpoint === undefined) throw notFound("webhook endpoint");
      return c.json({ ...showEndpoint(endpoint), secret });
    },
  );
};

export const registerWebhookEndpoints = (app: App): void => {
  registerCreate(app);
  registerRead(app);
  registerChange(app);
};
