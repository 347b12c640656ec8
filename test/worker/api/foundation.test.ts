import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { createApp } from "../../../src/api/app.ts";
import { errorCodes } from "../../../src/api/errors.ts";
import { renderErrors } from "../../../src/local/docs-errors.ts";
import { StoreUnavailable } from "../../../src/store/errors.ts";
import { failure, type Harness, harness, type TestTenant } from "./harness.ts";

let api: Harness;
let tenant: TestTenant;

beforeAll(async () => {
  api = await harness();
  tenant = await api.tenant();
});

const post = (
  body: BodyInit | undefined,
  headers: Readonly<Record<string, string>> = { "Content-Type": "application/json" },
) => api.call("POST", "/v1/sessions", { key: tenant.key, headers, ...(body === undefined ? {} : { body }) });

describe("errors", () => {
  it("have one envelope, the request's id and no internals", async () => {
    const { headers, json } = await api.call("GET", "/v1/nothing");
    expect([headers.get("Content-Type"), json]).toEqual([
      "application/json",
      {
        type: "error",
        error: {
          type: "not_found_error",
          message: "There is no such path; /docs lists those that exist.",
          code: "not_found",
          retryable: false,
        },
        request_id: headers.get("X-Request-Id"),
      },
    ]);
    expect(json.request_id).toMatch(/^req_[0-9A-Za-z]{24}$/);
  });

  it("are documented: docs/errors.md is what the list says", async () => {
    const page = await readFile(join(import.meta.dirname, "../../../docs/errors.md"), "utf8");
    expect(page).toBe(renderErrors());
    expect(errorCodes.filter((code) => !page.includes(`| \`${code}\` |`))).toEqual([]);
  });

  it("name the methods that a path has", async () => {
    const answer = await api.call("PUT", "/v1/sessions/ses_1");
    expect([failure(answer), answer.headers.get("Allow")]).toEqual([
      { status: 405, code: "method_not_allowed" },
      "DELETE, GET, PATCH",
    ]);
    expect((await api.call("POST", "/v1/sessions/ses_1/files/a/b")).headers.get("Allow")).toBe(
      "DELETE, GET, HEAD, PUT",
    );
    expect(failure(await api.call("GET", "/V1/sessions")).code).toBe("not_found");
  });

  const failing = (error: unknown) => {
    const logged: string[] = [];
    const app = createApp({
      makeDeps: () => ({
        ...api.deps,
        db: { ...api.deps.db, batch: () => Promise.reject(error) },
        log: { ...api.deps.log, error: (msg, fields) => logged.push(JSON.stringify({ msg, ...fields })) },
      }),
    });
    const call = async () => {
      const response = await app.request("https://hango.test/v1/sessions", {
        headers: { Authorization: `Bearer ${tenant.key}` },
      });
      return { status: response.status, retryAfter: response.headers.get("Retry-After"), text: await response.text() };
    };
    return { logged, call };
  };

  it("of an unreachable database are a 503 to come back after", async () => {
    const { call } = failing(new StoreUnavailable("the database could not be reached"));
    const { status, retryAfter, text } = await call();
    expect([status, retryAfter, JSON.parse(text).error]).toEqual([
      503,
      "1",
      {
        type: "api_error",
        message: "The database cannot be reached at the moment.",
        code: "unavailable",
        retryable: true,
      },
    ]);
  });

  it("that nobody expected are a 500 that tells nothing, and a log line without content", async () => {
    const secret = "select * from api_keys -- params: hunter2";
    const { call, logged } = failing(
      Object.assign(new Error(secret), {
        name: "DrizzleQueryError",
        cause: Object.assign(new Error(secret), { code: "42P01" }),
      }),
    );
    const { status, text } = await call();
    expect([status, JSON.parse(text).error]).toEqual([
      500,
      { type: "api_error", message: "Something went wrong inside hango.", code: "internal", retryable: false },
    ]);
    expect([logged.length, logged.join().includes("hunter2"), text.includes("hunter2")]).toEqual([1, false, false]);
    expect(JSON.parse(logged[0] ?? "{}")).toMatchObject({
      msg: "request failed",
      error: "DrizzleQueryError",
      sqlstate: "42P01",
      request_id: JSON.parse(text).request_id,
    });
  });
});

describe("bodies", () => {
  it("must be JSON where JSON is meant", async () => {
    expect(failure(await post("a=b", { "Content-Type": "application/x-www-form-urlencoded" }))).toEqual({
      status: 415,
      code: "unsupported_media_type",
      param: "Content-Type",
    });
    expect(failure(await post("{}", { "Content-Type": "text/plain" }))).toMatchObject({ status: 415 });
    expect((await post("{}", { "Content-Type": "application/json; charset=utf-8" })).status).toBe(201);
  });

  it.each<[string, BodyInit]>([
    ["no JSON", "{"],
    ["nothing", ""],
    ["white space", " \n"],
    ["a trailing comma", '{"a":1,}'],
    ["two values", "{}{}"],
    ["no UTF-8", new Uint8Array([0x7b, 0xff, 0x7d])],
    ["65 levels", `{"metadata":${"[".repeat(64)}${"]".repeat(64)}}`],
    ["100,000 levels", "[".repeat(100_000)],
    ["an array", "[]"],
    ["null", "null"],
    ["a number", "1"],
  ])("are refused as %s", async (_, body) => {
    expect(failure(await post(body))).toEqual({ status: 400, code: "invalid_request", param: "body" });
  });

  it("say where they are no JSON", async () => {
    expect((await post('{"a": nope}')).json.error.message).toMatch(
      /^body: is not valid JSON( \(at position \d+.*\))?$/,
    );
  });

  it("are at most 4 MB, whatever Content-Length says, also in chunks", async () => {
    const large = JSON.stringify({ system: "x".repeat(4 * 1024 * 1024) });
    const tooLarge = { status: 413, code: "payload_too_large" };
    expect(failure(await post(large))).toEqual(tooLarge);
    expect(failure(await post(large, { "Content-Type": "application/json", "Content-Length": "2" }))).toEqual(tooLarge);
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(0x20));
      },
    });
    const response = await api.app.request("https://hango.test/v1/sessions", {
      method: "POST",
      body: endless,
      duplex: "half",
      headers: { Authorization: `Bearer ${tenant.key}`, "Content-Type": "application/json" },
    } as RequestInit);
    expect([response.status, sent < 6 * 1024 * 1024]).toEqual([413, true]);
  });

  it("are not read before the key is known", async () => {
    const large = JSON.stringify({ system: "x".repeat(5 * 1024 * 1024) });
    const headers = { "Content-Type": "application/json" };
    expect((await api.call("POST", "/v1/sessions", { body: large, headers })).status).toBe(401);
    expect((await api.call("POST", "/v1/sessions/ses_1/turns", { body: large, headers })).status).toBe(401);
  });

  it("have their lone surrogates repaired at the door, pairs kept", async () => {
    const { json } = await post('{"title":"a\\ud800b \\ud83d\\ude00"}');
    expect(json.title).toBe("a\ufffdb 😀");
  });

  it("cannot reach prototypes", async () => {
    const { json } = await post('{"metadata":{"__proto__":"x","constructor":"y"}}');
    expect([json.metadata.constructor, Object.getPrototypeOf({}).x]).toEqual(["y", undefined]);
    expect(failure(await post('{"__proto__":{"title":"x"}}'))).toMatchObject({ status: 400 });
  });
});

describe("the rate limit", () => {
  it("is by key, answers 429 with Retry-After, and asks no database", async () => {
    const asked: string[] = [];
    const limited = await harness({
      env: {
        RATE_LIMITER: {
          limit: async ({ key }: { key: string }) => {
            asked.push(key);
            return { success: asked.filter((each) => each === key).length < 3 };
          },
        },
      },
    });
    const key = `hango_${"a".repeat(40)}`;
    const statuses = [];
    for (let n = 0; n < 3; n++) statuses.push((await limited.call("GET", "/v1/sessions", { key })).status);
    const answer = await limited.call("GET", "/v1/sessions", { key });
    expect([statuses, failure(answer), answer.headers.get("Retry-After"), limited.roundTrips()]).toEqual([
      [401, 401, 429],
      { status: 429, code: "rate_limited" },
      "60",
      0,
    ]);
    expect((await limited.call("GET", "/v1/sessions", { key: `hango_${"b".repeat(40)}` })).status).toBe(401);
    expect(asked.some((each) => each.includes("hango_"))).toBe(false);
    expect((await limited.call("GET", "/healthz")).status).toBe(200);
  });
});

describe("/healthz", () => {
  it("says that the database answers", async () => {
    const { status, json } = await api.call("GET", "/healthz");
    expect([status, json]).toEqual([200, { status: "ok", database: "ok" }]);
  });

  it("answers 503 when it does not, and does not wait for ever", async () => {
    const never = createApp({
      makeDeps: () => ({ ...api.deps, db: { ...api.deps.db, batch: () => new Promise(() => undefined) } }),
    });
    const broken = createApp({
      makeDeps: () => ({ ...api.deps, db: { ...api.deps.db, batch: () => Promise.reject(new Error("x")) } }),
    });
    const answers = await Promise.all([never, broken].map((app) => app.request("https://hango.test/healthz")));
    expect(await Promise.all(answers.map(async (answer) => [answer.status, await answer.json()]))).toEqual([
      [503, { status: "unavailable", database: "unavailable" }],
      [503, { status: "unavailable", database: "unavailable" }],
    ]);
  });
});

interface Documented {
  readonly operationId?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: { readonly $ref?: string } }>>;
  };
}

describe("the description", () => {
  it("is OpenAPI 3.1 with bearer keys, errors everywhere and ids for every operation's parts", async () => {
    const { status, json } = await api.call("GET", "/openapi.json");
    expect([status, json.openapi, json.servers, json.components.securitySchemes.bearer.scheme]).toEqual([
      200,
      "3.1.0",
      [{ url: "https://hango.test" }],
      "bearer",
    ]);
    const text = JSON.stringify(json);
    const refs = [...text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name = ""]) => name);
    expect(refs.filter((name) => json.components.schemas[name] === undefined)).toEqual([]);
    for (const [path, item] of Object.entries<Record<string, { parameters?: { name: string; in: string }[] }>>(
      json.paths,
    )) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const operation of Object.values(item)) {
        const documented = (operation.parameters ?? [])
          .filter((parameter) => parameter.in === "path")
          .map(({ name }) => name);
        expect([path, documented.toSorted()]).toEqual([path, names.toSorted()]);
      }
    }
  });

  it("says of every operation what it is for, and shows the members of every JSON body", async () => {
    const document = (await api.call("GET", "/openapi.json")).json;
    const { text } = await api.call("GET", "/docs");
    for (const [path, item] of Object.entries<Record<string, Documented>>(document.paths)) {
      for (const operation of Object.values(item)) {
        const { operationId = path, summary = "", description = "", requestBody } = operation;
        expect([operationId, summary === "", description === ""]).toEqual([operationId, false, false]);
        const article = text.split(`<article id="${operationId}">`)[1]?.split("</article>")[0] ?? "";
        expect([operationId, article.includes(`<p>${summary.replaceAll("'", "&#39;")}</p>`)]).toEqual([
          operationId,
          true,
        ]);
        const named = requestBody?.content["application/json"]?.schema.$ref !== undefined;
        expect([operationId, !named || article.includes("<h4>Body")]).toEqual([operationId, true]);
      }
    }
  });

  it("describes no closed object as a part of another: nothing would satisfy both", async () => {
    const { components } = (await api.call("GET", "/openapi.json")).json;
    type Part = { $ref?: string; properties?: object; additionalProperties?: boolean };
    const found = (part: Part): Part =>
      part.$ref === undefined ? part : components.schemas[part.$ref.split("/").at(-1) ?? ""];
    const merged: Part[][] = [];
    JSON.stringify(components, (_, value) => {
      if (Array.isArray(value?.allOf)) merged.push(value.allOf.map(found));
      return value;
    });
    const objects = merged.map((parts) => parts.filter(({ properties }) => properties !== undefined));
    expect(
      objects.filter((parts) => parts.length > 1 && parts.some((part) => part.additionalProperties === false)),
    ).toEqual([]);
  });

  it("is a page without scripts, whose style alone the CSP allows", async () => {
    const { status, headers, text } = await api.call("GET", "/docs");
    const style = /<style>([\s\S]*?)<\/style>/.exec(text)?.[1] ?? "";
    const hash = createHash("sha256").update(style).digest("base64");
    expect([status, headers.get("Content-Type"), headers.get("Content-Security-Policy")]).toEqual([
      200,
      "text/html; charset=utf-8",
      `default-src 'none'; style-src 'sha256-${hash}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
    ]);
    expect([
      /<script|\son\w+=|style=|<link|src=/i.test(text),
      text.includes("undefined"),
      text.includes("[object"),
    ]).toEqual([false, false, false]);
    const anchors = [...text.matchAll(/href="#([^"]+)"/g)].map(([, anchor]) => anchor);
    expect(anchors.length).toBeGreaterThan(20);
    expect(anchors.filter((anchor) => !text.includes(`id="${anchor}"`))).toEqual([]);
    expect(new Set(anchors).size).toBe(anchors.length);
    expect(text).toContain("curl -X POST &quot;https://hango.test/v1/sessions&quot;");
  });

  it("escapes what the request says about itself", async () => {
    const response = await api.app.request('https://hango.test/docs?"><script>', { headers: { Host: '"><script>' } });
    expect((await response.text()).includes("<script>")).toBe(false);
  });
});
