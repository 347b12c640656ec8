/** What a call of each kind is, and how its service says that it failed. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** Batches by what they alone write; the first that fits. A batch that none fits is named by its tables. */
const BATCHES: readonly (readonly [name: string, written: RegExp])[] = [
  ["begin", /insert into runs /],
  ["commit compaction", /insert into compactions /],
  ["take run", /hango\.freshly_taken/],
  ["wait for caller", /status = 'requires_action'.*waiting_run_id = \$/s],
  ["finish", /update sessions /],
  ["store assistant", /open_batch_seq = \$\d+/],
  ["store results", /open_batch_seq = null/],
  ["keep answer", /insert into tool_answers /],
];

/** A batch that writes nothing. */
export const READ = "read";

export const sqlLabel = (_request: IncomingMessage, body: Buffer): string => {
  const sent: { readonly query?: string; readonly queries?: readonly { readonly query: string }[] } = JSON.parse(
    body.toString(),
  );
  const text = sent.queries?.map(({ query }) => query).join("; ") ?? sent.query ?? "";
  const known = BATCHES.find(([, written]) => written.test(text))?.[0];
  if (known !== undefined) return known;
  const tables = [...text.matchAll(/\b(?:insert into|update(?! of)|delete from) ([a-z]+_?[a-z]+)\b/g)];
  return tables.length === 0 ? READ : [...new Set(tables.map(([, table]) => table))].join("+");
};

/** The method and the area of the key: `put sections`, `list files`. */
export const bucketLabel = (request: IncomingMessage, body: Buffer): string => {
  const header = request.headers["mf-header-cf-r2-request"];
  const size = Number(request.headers["mf-header-cf-r2-metadata-size"] ?? 0);
  const said = typeof header === "string" ? header : body.subarray(0, size).toString();
  const { method, object, objects, prefix } = JSON.parse(said);
  const key = String(object ?? objects?.[0] ?? prefix ?? "");
  const [, , , , area = "", name = ""] = key.split("/");
  return `${method} ${area}${name === "" ? "" : `/${name}`}`;
};

export const providerLabel = (request: IncomingMessage, body: Buffer): string => {
  const path = (request.url ?? "").split("?")[0] ?? "";
  if (path !== "/v1/messages") return path;
  return (JSON.parse(body.toString()).tools ?? []).length > 0 ? "turn" : "summary";
};

export const queueLabel = (): string => "send";

export const toolLabel = (request: IncomingMessage): string => (request.url ?? "").slice(1);

const json = (
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: object,
): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
};

/** As R2 says it: an error that passes by itself. */
export const bucketFails = (response: ServerResponse): void => {
  const error = { version: 1, v4code: 10001, message: "We encountered an internal error. Please try again." };
  json(response, 500, { "cf-r2-error": JSON.stringify(error) }, error);
};

export const providerFails = (response: ServerResponse): void =>
  json(
    response,
    500,
    { "retry-after-ms": "1" },
    { type: "error", error: { type: "api_error", message: "Internal server error" } },
  );

/** As a tool, and the queue, say it. */
export const serviceFails = (response: ServerResponse): void => json(response, 500, {}, { error: "no" });
