/** API keys: made, listed, revoked. A secret is shown once, when it is made. */
import { z } from "@hono/zod-openapi";
import { isId, type TenantId } from "../protocol/ids.ts";
import { sha256Hex } from "../protocol/sha256.ts";
import { createKey, type KeyRecord, listKeys, revokeKey } from "../store/keys.ts";
import { pageOf } from "../store/pages.ts";
import { principalOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { cursors, listOf, listPage, listQuery, readPage } from "./lists.ts";
import { json, jsonBody, operation } from "./operation.ts";
import { newSecret } from "./secrets.ts";
import { boundedText, timestamp } from "./text.ts";

const tags = ["keys and tenants"];
const LIST = "keys";

const scope = z.enum(["read", "write", "content", "admin"]);
const ALL_BUT_ADMIN = ["read", "write", "content"] as const;

const createKeySchema = z
  .strictObject({
    tenant_id: z.string().optional().openapi({ description: "Whose key it is. Required with the operator's key." }),
    name: boundedText(200).optional(),
    scopes: z.array(scope).min(1).optional().openapi({
      description:
        "`read`: sessions, runs, usage. `content`: messages, files, events. `write`: everything that changes something. `admin`: keys and webhook endpoints. Default: all but `admin`.",
    }),
    expires_at: timestamp.nullable().optional().openapi({ description: "Null or absent: never." }),
  })
  .openapi("CreateKey", {
    example: { tenant_id: "tnt_...", name: "production", scopes: ["read", "write", "content"] },
  });

const keySchema = z
  .object({
    id: z.string(),
    type: z.literal("key"),
    tenant_id: z.string(),
    name: z.string(),
    prefix: z.string().openapi({ description: "The first characters of the secret." }),
    scopes: z.array(scope),
    expires_at: z.iso.datetime().nullable(),
    revoked_at: z.iso.datetime().nullable(),
    created_at: z.iso.datetime(),
  })
  .openapi("Key");

const createdKeySchema = keySchema
  .extend({ secret: z.string().openapi({ description: "Shown now and never again." }) })
  .openapi("CreatedKey");

const showKey = (key: KeyRecord) => ({
  id: key.id,
  type: "key",
  tenant_id: key.tenantId,
  name: key.name,
  prefix: key.prefix,
  scopes: key.scopes,
  expires_at: key.expiresAt,
  revoked_at: key.revokedAt,
  created_at: key.createdAt,
});

/** Whose keys the caller may see and revoke: the own tenant's, or all (null) as the operator. */
const reach = (c: Ctx): TenantId | null => {
  const principal = principalOf(c);
  return principal.kind === "operator" ? null : principal.tenantId;
};

/** The tenant of a new key. @throws ApiError where the operator names none, or a tenant names another */
const tenantFor = (c: Ctx, given: string | undefined): TenantId => {
  const own = reach(c);
  if (own !== null) {
    if (given !== undefined && given !== own) throw notFound("tenant");
    return own;
  }
  if (given === undefined) throw invalid("tenant_id", "required with the operator's key");
  if (!isId("tnt", given)) throw notFound("tenant");
  return given;
};

export const registerKeys = (app: App): void => {
  operation(
    app,
    {
      method: "post",
      path: "/v1/keys",
      access: { either: "admin" },
      tags,
      operationId: "createKey",
      summary: "Make a key",
      description:
        "A tenant's key makes keys of its own tenant, with no scope that it does not have itself. Takes no `Idempotency-Key`: the secret is kept nowhere.",
      request: { body: jsonBody(createKeySchema) },
      responses: { 201: json(createdKeySchema, "The key with its secret.") },
    },
    async (c) => {
      const { db, newId, now } = c.get("deps");
      const given = c.req.valid("json");
      const principal = principalOf(c);
      const scopes = [...new Set(given.scopes ?? ALL_BUT_ADMIN)];
      const missing = principal.kind === "operator" ? [] : scopes.filter((each) => !principal.scopes.includes(each));
      if (missing.length > 0)
        throw new ApiError("forbidden", `The key itself lacks the scope \`${missing[0]}\`.`, { param: "scopes" });
      const expiresAt = given.expires_at ?? null;
      if (expiresAt !== null && Date.parse(expiresAt) <= now())
        throw invalid("expires_at", "expected a time in the future");
      const { secret, prefix } = newSecret();
      const key = await createKey(db, {
        id: newId("key"),
        tenantId: tenantFor(c, given.tenant_id),
        name: given.name ?? "",
        hash: await sha256Hex(secret),
        prefix,
        scopes,
        expiresAt,
      });
      if (key === undefined) throw notFound("tenant");
      return c.json({ ...showKey(key), secret }, 201);
    },
  );

  operation(
    app,
    {
      method: "get",
      path: "/v1/keys",
      access: { either: "admin" },
      tags,
      operationId: "listKeys",
      summary: "List keys",
      description: "Revoked and expired ones included. The operator sees those of all tenants, or of `tenant_id`.",
      request: { query: z.strictObject({ ...listQuery, tenant_id: boundedText(100).optional() }) },
      responses: { 200: json(listOf(keySchema), "A page of keys.") },
    },
    async (c) => {
      const query = c.req.valid("query");
      const own = reach(c);
      const tenantId = own === null && query.tenant_id === undefined ? null : tenantFor(c, query.tenant_id);
      const keys = await listKeys(c.get("deps").db, tenantId, pageOf(readPage(LIST, query, cursors.id)));
      return c.json(listPage(LIST, query, keys, showKey, ({ id }) => id));
    },
  );

  operation(
    app,
    {
      method: "delete",
      path: "/v1/keys/{id}",
      access: { either: "admin" },
      tags,
      operationId: "revokeKey",
      summary: "Revoke a key",
      description: "From now on the key is refused; it stays in the list.",
      request: { params: z.object({ id: z.string() }) },
      responses: { 200: json(keySchema, "The revoked key.") },
    },
    async (c) => {
      const { id } = c.req.valid("param");
      const key = isId("key", id) ? await revokeKey(c.get("deps").db, reach(c), id) : undefined;
      if (key === undefined) throw notFound("key");
      return c.json(showKey(key));
    },
  );
};
