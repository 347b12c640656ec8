/** `/v1/sessions/{id}/files`: the session's filesystem over HTTP. */
import { z } from "@hono/zod-openapi";
import { resolveSession } from "../store/session-scope.ts";
import {
  type FileEntry,
  type FilePath,
  type FileSystem,
  isReadOnly,
  parseDirectory,
  parsePath,
  sessionFiles,
  type WriteOptions,
} from "../turns/session-files.ts";
import { tenantOf } from "./auth.ts";
import type { App, Ctx } from "./env.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { answerFile } from "./file-content.ts";
import { entityTagsOf, tagsInclude } from "./http-conditions.ts";
import { cursorAfter, cursors, listOf, listQuery, readPage } from "./lists.ts";
import { json, operation } from "./operation.ts";
import { sessionParam, sessionRefOf } from "./session-ref.ts";

const tags = ["files"];
const LIST = "files";
const PATH = "/v1/sessions/{id}/files/{path}";
/** A file's path may hold slashes. */
const ROUTING_PATH = "/v1/sessions/{id}/files/:path{.+}";

const fileParam = sessionParam.extend({
  path: z
    .string()
    .openapi({ description: "The file's path, percent-encoded where needed; slashes stay.", example: "notes.md" }),
});

const fileSchema = z
  .object({
    type: z.literal("file"),
    path: z.string(),
    size_bytes: z.int(),
    etag: z.string().openapi({ description: "As in the header `ETag`, without its quotes." }),
    modified_at: z.iso.datetime(),
  })
  .openapi("File");

const showFile = (file: FileEntry) => ({
  type: "file",
  path: file.path,
  size_bytes: file.sizeBytes,
  etag: file.etag,
  modified_at: new Date(file.modifiedMs).toISOString(),
});

const filesOf = async (c: Ctx, id: string): Promise<FileSystem> => {
  const deps = c.get("deps");
  const tenantId = tenantOf(c);
  const session = await resolveSession(deps.db, tenantId, sessionRefOf(id));
  if (session === undefined) throw notFound("session");
  return sessionFiles(deps, tenantId, session.rootSessionId);
};

/** The path in the URL, decoded exactly once and then checked. */
const pathOf = (c: Ctx): FilePath => {
  const encoded = /^\/v1\/sessions\/[^/]+\/files\/(.*)$/s.exec(new URL(c.req.url).pathname)?.[1] ?? "";
  let decoded: string;
  try {
    decoded = decodeURIComponent(encoded);
  } catch {
    throw invalid("path", "is not valid percent-encoded UTF-8");
  }
  const parsed = parsePath(decoded);
  if (!parsed.ok) throw invalid("path", parsed.reason);
  return parsed.path;
};

const writable = (path: FilePath): FilePath => {
  if (isReadOnly(path))
    throw new ApiError(
      "read_only_path",
      "hango keeps offloaded history and results here; read it, but do not write it.",
    );
  return path;
};

const preconditionFailed = (param: string): ApiError =>
  new ApiError("precondition_failed", `The file is not in the state that ${param} asks for.`, { param });

/** The conditions of a write, as the filesystem takes them. */
const writeConditions = async (files: FileSystem, path: FilePath, headers: Headers): Promise<WriteOptions> => {
  const ifNoneMatch = entityTagsOf(headers, "If-None-Match");
  if (ifNoneMatch !== null && ifNoneMatch !== "*") throw invalid("If-None-Match", "expected * for a write");
  const ifMatch = entityTagsOf(headers, "If-Match");
  if (ifMatch === null) return ifNoneMatch === null ? {} : { ifNoneMatch };
  if (ifNoneMatch !== null) throw invalid("If-None-Match", "cannot be combined with If-Match");
  const [only, ...others] = ifMatch === "*" ? [] : ifMatch;
  if (only !== undefined && others.length === 0) return { ifMatch: only };
  const current = await files.stat(path);
  if (current === undefined || !tagsInclude(ifMatch, current.etag)) throw preconditionFailed("If-Match");
  return { ifMatch: current.etag };
};

const contentTypeOf = (headers: Headers): WriteOptions => {
  const contentType = headers.get("Content-Type");
  // curl sends this for any --data-binary; nobody means it.
  if (contentType === null || contentType === "application/x-www-form-urlencoded") return {};
  if (contentType.length > 200) throw invalid("Content-Type", "expected at most 200 characters");
  return { contentType };
};

const binary = (description: string) => ({
  description,
  content: { "*/*": { schema: { type: "string" as const, format: "binary" } } },
});

const registerList = (app: App): void =>
  operation(
    app,
    {
      method: "get",
      path: "/v1/sessions/{id}/files",
      access: { tenant: "content" },
      tags,
      operationId: "listFiles",
      summary: "List files",
      description:
        "All files of the session, in the order of their paths; offloaded history and results are among them.",
      request: {
        params: sessionParam,
        query: z.strictObject({
          limit: listQuery.limit,
          page: z.string().max(6_000).optional().openapi({ description: "`next_page` of the page before." }),
          prefix: z
            .string()
            .max(4_000)
            .optional()
            .openapi({ description: "What the paths begin with.", example: "/notes/" }),
        }),
      },
      responses: { 200: json(listOf(fileSchema), "A page of files.") },
    },
    async (c) => {
      const { limit, page, prefix = "/" } = c.req.valid("query");
      const parsed = prefix.endsWith("/") ? parseDirectory(prefix) : parsePath(prefix);
      if (!parsed.ok) throw invalid("prefix", parsed.reason);
      const query = { limit, order: "asc", ...(page === undefined ? {} : { page }) } as const;
      const { cursor } = readPage(LIST, query, cursors.text);
      const files = await filesOf(c, c.req.valid("param").id);
      const list = await files.list({ prefix: parsed.path, limit, ...(cursor === null ? {} : { cursor }) });
      return c.json({
        data: list.files.map(showFile),
        next_page: list.cursor === undefined ? null : cursorAfter(LIST, query, list.cursor),
      });
    },
  );

const registerRead = (app: App): void => {
  const read = {
    path: PATH,
    routingPath: ROUTING_PATH,
    access: { tenant: "content" },
    tags,
    request: { params: fileParam },
  } as const;
  operation(
    app,
    {
      ...read,
      method: "get",
      operationId: "readFile",
      summary: "Read a file",
      description: "Takes `Range`, `If-Range`, `If-Match` and `If-None-Match`. The answer is always a download.",
      responses: {
        200: binary("The file."),
        206: binary("The part that `Range` asks for."),
        304: { description: "Not modified." },
      },
    },
    async (c) => {
      const path = pathOf(c);
      const files = await filesOf(c, c.req.valid("param").id);
      const file = await files.stat(path);
      if (file === undefined) throw notFound("file");
      return answerFile(files, path, file, c.req.raw);
    },
  );
  // Hono answers HEAD with the handler of GET; this documents it.
  app.openAPIRegistry.registerPath({
    path: PATH,
    method: "head",
    tags,
    operationId: "statFile",
    summary: "Look at a file without reading it",
    description: "The headers of `GET`.\n\nNeeds a key with the scope `content`.",
    security: [{ bearer: [] }],
    request: { params: fileParam },
    responses: { 200: { description: "The file exists." }, 404: { description: "It does not." } },
  });
};

const registerWrite = (app: App): void =>
  operation(
    app,
    {
      method: "put",
      path: PATH,
      routingPath: ROUTING_PATH,
      access: { tenant: "write" },
      tags,
      operationId: "writeFile",
      summary: "Write a file",
      description:
        'The body is the file, at most 25 MB. `If-Match: "etag"` replaces that version only, `If-None-Match: *` writes only if there is none. Without `Content-Type` the type follows from the name.',
      request: { params: fileParam, body: { required: true, ...binary("The file.") } },
      responses: { 200: json(fileSchema.omit({ modified_at: true }).openapi("WrittenFile"), "The file is written.") },
    },
    async (c) => {
      const path = writable(pathOf(c));
      const files = await filesOf(c, c.req.valid("param").id);
      const { headers } = c.req.raw;
      const conditions = await writeConditions(files, path, headers);
      const bytes = new Uint8Array(await c.req.arrayBuffer());
      const written = await files.write(path, bytes, { ...conditions, ...contentTypeOf(headers) });
      if ("conflict" in written) throw preconditionFailed("ifMatch" in conditions ? "If-Match" : "If-None-Match");
      c.header("ETag", `"${written.etag}"`);
      return c.json({ type: "file", path, size_bytes: bytes.byteLength, etag: written.etag });
    },
  );

const registerDelete = (app: App): void =>
  operation(
    app,
    {
      method: "delete",
      path: PATH,
      routingPath: ROUTING_PATH,
      access: { tenant: "write" },
      tags,
      operationId: "deleteFile",
      summary: "Delete a file",
      description: "`If-Match` is compared before the file is deleted, not together with it.",
      request: { params: fileParam },
      responses: {
        200: json(
          z.object({ type: z.literal("file"), path: z.string(), deleted: z.literal(true) }).openapi("DeletedFile"),
          "The file is gone.",
        ),
      },
    },
    async (c) => {
      const path = writable(pathOf(c));
      const files = await filesOf(c, c.req.valid("param").id);
      const ifMatch = entityTagsOf(c.req.raw.headers, "If-Match");
      if (ifMatch !== null) {
        const current = await files.stat(path);
        if (current === undefined || !tagsInclude(ifMatch, current.etag)) throw preconditionFailed("If-Match");
      }
      if (!(await files.remove(path))) throw notFound("file");
      return c.json({ type: "file", path, deleted: true });
    },
  );

export const registerFiles = (app: App): void => {
  registerList(app);
  registerRead(app);
  registerWrite(app);
  registerDelete(app);
};
