/** Tenants: made and managed with the operator's key. */
import { z } from "@hono/zod-openapi";
import { isId } from "../protocol/ids.ts";
import { pageOf } from "../store/pages.ts";
import { changeTenant, createTenant, findTenant, listTenants, type TenantRecord } from "../store/tenants.ts";
import type { App } from "./env.ts";
import { notFound } from "./errors.ts";
import { claimOf, idempotencyHeaders, idempotencyMismatch, markReplayed, OPERATOR } from "./idempotency.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { boundedText } from "./text.ts";

const tags = ["keys and tenants"];
const LIST = "tenants";

const name = boundedText(200, 1);
const status = z.enum(["active", "suspended"]);
const params = z.object({ id: z.string() });

const tenantSchema = z
  .object({ id: z.string(), type: z.literal("tenant"), name: z.string(), status, created_at: z.iso.datetime() })
  .openapi("Tenant");

const createTenantSchema = z.strictObject({ name }).openapi("CreateTenant", { example: { name: "acme" } });

const changeTenantSchema = z
  .strictObject({
    name: name.optional(),
    status: status.optional().openapi({ description: "The keys of a suspended tenant are refused with 403." }),
  })
  .openapi("ChangeTenant", { example: { status: "suspended" } });

const showTenant = (tenant: TenantRecord) => ({
  id: tenant.id,
  type: "tenant",
  name: tenant.name,
  status: tenant.status,
  created_at: tenant.createdAt,
});

export const registerTenants = (app: App): void => {
  operation(
    app,
    {
      method: "post",
      path: "/v1/tenants",
      access: "operator",
      tags,
      operationId: "createTenant",
      summary: "Make a tenant",
      request: { headers: idempotencyHeaders, body: jsonBody(createTenantSchema) },
      responses: { 201: json(tenantSchema, "The tenant.") },
    },
    async (c) => {
      const { db, newId } = c.get("deps");
      const id = newId("tnt");
      const { claim, tenant } = await createTenant(db, id, c.req.valid("json").name, await claimOf(c, OPERATOR, id));
      if (claim.kind === "mismatch") throw idempotencyMismatch();
      if (tenant === undefined) throw notFound("tenant");
      if (claim.kind === "replay") markReplayed(c);
      return c.json(showTenant(tenant), 201);
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/tenants",
      access: "operator",
      tags,
      operationId: "listTenants",
      summary: "List tenants",
      request: { query: z.strictObject(listQuery) },
      responses: { 200: json(listOf(tenantSchema), "A page of tenants.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const tenants = await listTenants(c.get("deps").db, pageOf(readPage(LIST, query, cursors.id)));
      return c.json(listPage(LIST, query, tenants, showTenant, ({ id }) => id));
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/tenants/{id}",
      access: "operator",
      tags,
      operationId: "getTenant",
      summary: "Read a tenant",
      request: { params },
      responses: { 200: json(tenantSchema, "The tenant.") },
    },
    async (c) => {
      const { id } = c.req.valid("param");
      const tenant = isId("tnt", id) ? await findTenant(c.get("deps").db, id) : undefined;
      if (tenant === undefined) throw notFound("tenant");
      return c.json(showTenant(tenant));
    },
  );

  operation(
    app,
    {
      method: "patch",
      path: "/v1/tenants/{id}",
      access: "operator",
      tags,
      operationId: "changeTenant",
      summary: "Rename, suspend or reactivate a tenant",
      request: { params, body: jsonBody(changeTenantSchema) },
      responses: { 200: json(tenantSchema, "The tenant after the change.") },
    },
    async (c) => {
      const { id } = c.req.valid("param");
      const tenant = isId("tnt", id) ? await changeTenant(c.get("deps").db, id, c.req.valid("json")) : undefined;
      if (tenant === undefined) throw notFound("tenant");
      return c.json(showTenant(tenant));
    },
  );
};
