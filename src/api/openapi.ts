/** `/openapi.json` and `/docs`: the API as its schemas describe it. */
import { renderDocs } from "./docs-page.ts";
import type { App, OpenApiDocument } from "./env.ts";

const INFO = {
  title: "hango",
  version: "0.1.0",
  description:
    "Hosted agent sessions that never outgrow the model's context window. JSON over HTTPS; every error has the shape of `Error`.",
  license: { name: "Apache-2.0", identifier: "Apache-2.0" },
};

/** The OpenAPI 3.1 document of an app. @param origin where the API is reached, for `servers` */
export const describe = (app: App, origin: string): OpenApiDocument => {
  const document = app.getOpenAPI31Document({ openapi: "3.1.0", info: INFO, servers: [{ url: origin }] });
  return {
    ...document,
    components: {
      ...document.components,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "An API key: `Authorization: Bearer hango_...`." },
      },
    },
  };
};

const pattern = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/\{(\w+)\}/g, (_, name: string) => (name === "path" ? ".+" : "[^/]+"))}$`);

/** The methods that a path is documented with; empty for a path that does not exist. */
export const allowedMethods = (app: App, pathname: string): readonly string[] =>
  app.openAPIRegistry.definitions
    .flatMap((definition) => (definition.type === "route" ? [definition.route] : []))
    .filter(({ path }) => pattern(path).test(pathname))
    .map(({ method }) => method.toUpperCase())
    .filter((method, index, all) => all.indexOf(method) === index)
    .toSorted();

/** Adds `/openapi.json` and `/docs`. */
export const registerDescription = (app: App): void => {
  app.get("/openapi.json", (c) => c.json(describe(app, new URL(c.req.url).origin)));
  app.get("/docs", async (c) => {
    const page = await renderDocs(describe(app, new URL(c.req.url).origin));
    return c.body(page.html, 200, {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": `default-src 'none'; style-src '${page.styleHash}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
    });
  });
};
