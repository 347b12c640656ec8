/** `/docs`: the OpenAPI document as one plain page for people, without a script. */
import { html, raw } from "hono/html";
import type { OpenApiDocument } from "./env.ts";

const STYLE = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); --soft: color-mix(in srgb, currentColor 6%, transparent); }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1.5rem; }
nav h2 { font-size: 1.1rem; margin: 1.1rem 0 0.2rem; }
nav ul { columns: 18rem; list-style: none; margin: 0; padding: 0; }
a { color: inherit; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; padding: 0.75rem; }
article { border-top: 1px solid var(--line); padding: 0.5rem 0 1rem; }
.method { border: 1px solid var(--line); border-radius: 4px; display: inline-block; font-weight: 600; min-width: 4.5rem; padding: 0 0.4rem; text-align: center; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; padding: 0.3rem 0.6rem 0.3rem 0; text-align: left; vertical-align: top; }
th:first-child { min-width: 9rem; }
h3, p { overflow-wrap: anywhere; }
@media (max-width: 44rem) {
  body { padding: 1rem; }
  thead { display: none; }
  tr { border-bottom: 1px solid var(--line); display: block; padding: 0.4rem 0; }
  td { border: 0; display: block; padding: 0; }
  td:nth-child(2) { font-size: 0.9em; opacity: 0.75; }
}
`;

/** A description as it is written: what stands between backticks is code. */
const prose = (text: string) =>
  text.split("`").map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));

/** A schema of the document, as far as the page reads it. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly example?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly format?: string;
}

type Content = Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>;

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema?: Schema;
}

interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
  readonly security?: readonly unknown[];
}

interface Listed {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

const METHODS = ["get", "head", "post", "put", "patch", "delete"] as const;

const operationsOf = (document: OpenApiDocument): readonly Listed[] =>
  Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    METHODS.flatMap((method): readonly Listed[] => {
      const operation: unknown = item[method];
      // The document is our own generator's: an operation object has this shape.
      return operation === undefined ? [] : [{ method, path, operation: operation as Operation }];
    }),
  );

type Resolve = (schema: Schema) => Schema;

const resolver =
  (document: OpenApiDocument): Resolve =>
  (schema) => {
    const name = nameOf(schema);
    const found: unknown = name === undefined ? undefined : document.components?.schemas?.[name];
    return found === undefined ? schema : (found as Schema);
  };

const nameOf = (schema: Schema): string | undefined => schema.$ref?.split("/").at(-1);

/** The type of a value; a schema that the page describes on its own is named. */
const typeWords = (schema: Schema): string => {
  const named = nameOf(schema);
  if (named !== undefined) return named;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches !== undefined) return branches.map((branch) => typeWords(branch)).join(" or ");
  if (schema.type === "array") return `array of ${schema.items === undefined ? "anything" : typeWords(schema.items)}`;
  if (schema.type === "object" && schema.properties?.data?.items !== undefined) {
    return `page of ${typeWords(schema.properties.data.items)}`;
  }
  if (schema.type === undefined) return schema.allOf?.map((part) => typeWords(part)).join(" and ") ?? "anything";
  return typeof schema.type === "string" ? schema.type : schema.type.join(" or ");
};

/** Nested deeper, an example says less than the schema. */
const MAX_EXAMPLE_DEPTH = 5;

/** An example of a schema: its own, or one made of the required members. */
const exampleOf = (given: Schema, resolve: Resolve, depth = 0): unknown => {
  const schema = resolve(given);
  if (schema.example !== undefined) return schema.example;
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum !== undefined) return schema.enum[0];
  const branch = (schema.anyOf ?? schema.oneOf)?.[0];
  if (branch !== undefined) return exampleOf(branch, resolve, depth + 1);
  const type = typeof schema.type === "string" ? schema.type : schema.type?.[0];
  if (type === "string") return "...";
  if (type === "integer" || type === "number") return 1;
  if (type === "boolean") return true;
  if (depth > MAX_EXAMPLE_DEPTH) return {};
  if (type === "array") return schema.items === undefined ? [] : [exampleOf(schema.items, resolve, depth + 1)];
  const required = schema.required ?? [];
  return Object.fromEntries(
    Object.entries(schema.properties ?? {})
      .filter(([name]) => required.includes(name))
      .map(([name, member]) => [name, exampleOf(member, resolve, depth + 1)]),
  );
};

const PATH_EXAMPLES: Readonly<Record<string, string>> = { path: "notes.md" };

/** A curl line that works once the key and the ids are filled in. */
const curlOf = (
  { method, path, operation }: Listed,
  origin: string,
  body: unknown,
  bodyType: string | undefined,
): string => {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => PATH_EXAMPLES[name] ?? `$${name.toUpperCase()}`);
  const secured = (operation.security ?? []).length > 0;
  return [
    `curl ${method === "head" ? "-I" : `-X ${method.toUpperCase()}`} "${origin}${filled}"`,
    ...(secured ? ['-H "Authorization: Bearer $HANGO_KEY"'] : []),
    ...(bodyType === undefined ? [] : [`-H "Content-Type: ${bodyType === "*/*" ? "text/markdown" : bodyType}"`]),
    ...(bodyType === "application/json" ? [`-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`] : []),
    ...(bodyType === "*/*" || bodyType === "application/octet-stream" ? ["--data-binary @notes.md"] : []),
  ].join(" \\\n  ");
};

const anchorOf = ({ method, path, operation }: Listed): string =>
  operation.operationId ?? `${method}${path.replaceAll(/[{}]/g, "")}`.replaceAll("/", "-");

const table = (title: string, rows: readonly (readonly [string, string, string])[]) =>
  rows.length === 0
    ? ""
    : html`<h4>${title}</h4>
        <table>
          <thead><tr><th>Name</th><th>Type</th><th>What it is</th></tr></thead>
          <tbody>${rows.map(([name, type, what]) => html`<tr><td><code>${name}</code></td><td>${type}</td><td>${prose(what)}</td></tr>`)}</tbody>
        </table>`;

type Rows = readonly (readonly [string, string, string])[];

const membersOf = (schema: Schema, resolve: Resolve): Rows => [
  ...(schema.allOf ?? []).flatMap((part) => membersOf(resolve(part), resolve)),
  ...Object.entries(schema.properties ?? {}).map(([name, member]): readonly [string, string, string] => [
    schema.required?.includes(name) ? `${name} (required)` : name,
    typeWords(member),
    resolve(member).description ?? member.description ?? "",
  ]),
];

/** What is one of several objects has a table for each. */
const bodyTables = (schema: Schema, resolve: Resolve) => {
  const branches = schema.oneOf ?? schema.anyOf;
  return branches === undefined
    ? table("Body", membersOf(schema, resolve))
    : branches.map((branch) => table(`Body: ${typeWords(branch)}`, membersOf(resolve(branch), resolve)));
};

const answerType = (content: Content = {}): string =>
  Object.entries(content)
    .map(([type, { schema }]) => (type === "application/json" && schema !== undefined ? typeWords(schema) : type))
    .join(" or ");

/** Schemas that operations refer to by name. */
const objects = (document: OpenApiDocument, resolve: Resolve) =>
  Object.keys(document.components?.schemas ?? {})
    .toSorted()
    .map((name) => {
      const schema = resolve({ $ref: name });
      const members = membersOf(schema, resolve);
      const what = members.length > 0 ? "" : html`<p>${typeWords(schema)}</p>`;
      return html`<article id="object-${name}"><h3><code>${name}</code></h3><p>${prose(schema.description ?? "")}</p>${what}${table("Members", members)}</article>`;
    });

const section = (listed: Listed, origin: string, resolve: Resolve) => {
  const { method, path, operation } = listed;
  const [bodyType, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const schema = media?.schema === undefined ? undefined : resolve(media.schema);
  const example = media?.example ?? (schema === undefined ? undefined : exampleOf(schema, resolve));
  const parameters = (operation.parameters ?? []).map((parameter): readonly [string, string, string] => [
    parameter.required === true ? `${parameter.name} (required)` : parameter.name,
    `${parameter.schema === undefined ? "string" : typeWords(parameter.schema)}, in ${parameter.in}`,
    parameter.description ?? parameter.schema?.description ?? "",
  ]);
  const responses = Object.entries(operation.responses).map(([status, response]): readonly [string, string, string] => [
    status === "default" ? "error" : status,
    answerType(response.content),
    response.description,
  ]);
  return html`<article id="${anchorOf(listed)}">
    <h3><span class="method">${method.toUpperCase()}</span> <code>${path}</code></h3>
    <p>${operation.summary ?? ""}</p>
    ${(operation.description ?? "").split("\n\n").map((paragraph) => html`<p>${prose(paragraph)}</p>`)}
    ${table("Parameters", parameters)}
    ${schema === undefined ? "" : bodyTables(schema, resolve)}
    ${bodyType === "application/json" ? html`<h4>Example body</h4><pre>${JSON.stringify(example, null, 2)}</pre>` : ""}
    <h4>Try it</h4>
    <pre>${curlOf(listed, origin, example, bodyType)}</pre>
    ${table("Answers", responses)}
  </article>`;
};

const sha256Base64 = async (text: string): Promise<string> =>
  btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)))));

/** The page, and the CSP source that allows its style and nothing else. */
export const renderDocs = async (
  document: OpenApiDocument,
): Promise<{ readonly html: string; readonly styleHash: string }> => {
  const resolve = resolver(document);
  const origin = document.servers?.[0]?.url ?? "";
  const all = operationsOf(document);
  const tags = [...new Set(all.map(({ operation }) => operation.tags?.[0] ?? "Other"))];
  const tagged = (tag: string) => all.filter(({ operation }) => (operation.tags?.[0] ?? "Other") === tag);
  const page = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${document.info.title} API</title>
<style>${raw(STYLE)}</style>
</head>
<body>
<header>
<h1>${document.info.title} API</h1>
<p>${prose(document.info.description ?? "")} The same as data: <a href="/openapi.json">/openapi.json</a>.</p>
<p>Put a key into your shell before you try the lines below: <code>export HANGO_KEY=hango_...</code></p>
</header>
<nav aria-label="Operations">
${tags.map(
  (tag) => html`<h2>${tag}</h2>
<ul>${tagged(tag).map((listed) => html`<li><a href="#${anchorOf(listed)}">${listed.operation.summary ?? listed.path}</a></li>`)}</ul>`,
)}
<p><a href="#objects">Objects</a></p>
</nav>
<main>
${tags.map((tag) => html`<section><h2>${tag}</h2>${tagged(tag).map((listed) => section(listed, origin, resolve))}</section>`)}
<section id="objects"><h2>Objects</h2>${objects(document, resolve)}</section>
</main>
</body>
</html>`;
  return { html: String(page), styleHash: `sha256-${await sha256Base64(STYLE)}` };
};
