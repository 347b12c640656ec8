/** OTLP over HTTP with JSON bodies, on loopback: what posts spans and metrics is kept or told why not. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { isLoopbackHost } from "./loopback.ts";
import type { MetricStore } from "./metric-store.ts";
import { OtlpError, readMetrics, readSpans } from "./otlp.ts";
import type { SpanStore } from "./span-store.ts";

export interface ReceiverOptions {
  readonly spans: SpanStore;
  readonly metrics: MetricStore;
  readonly maxBodyBytes: number;
}

export interface Receiver {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  /** Ends every connection and stops listening. */
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** OTLP's errors are a message in JSON (`google.rpc.Status`). */
const refusal = (status: number, message: string, headers: Readonly<Record<string, string>> = {}): Answer => ({
  status,
  body: { message },
  headers,
});

/** Reads a body; past the limit it is read on but not kept, so that the sender gets to see the answer. */
const readBody = async (request: IncomingMessage, maxBytes: number): Promise<string | undefined> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size <= maxBytes) chunks.push(bytes);
  }
  return size > maxBytes ? undefined : Buffer.concat(chunks).toString("utf8");
};

/** What is wrong with the headers of a post, if anything. */
const refusedBy = ({ headers }: IncomingMessage): Answer | undefined => {
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  if (type.trim().toLowerCase() !== "application/json")
    return refusal(415, `Only application/json is spoken here; got ${type === "" ? "no Content-Type" : type.trim()}.`);
  const encoding = headers["content-encoding"] ?? "identity";
  return encoding === "identity"
    ? undefined
    : refusal(415, `Bodies are read as they are; got Content-Encoding ${encoding}.`);
};

type Take = (body: string) => unknown;

const takesOf = ({ spans, metrics }: ReceiverOptions): Readonly<Record<string, Take>> => ({
  "/v1/traces": (body) => {
    spans.add(readSpans(body));
    return {};
  },
  "/v1/metrics": (body) => {
    const { points, refused } = readMetrics(body);
    metrics.add(points);
    if (refused.count === 0) return {};
    const errorMessage = `only deltas of sums and histograms are kept here; left out: ${refused.names.join(", ")}`;
    return { partialSuccess: { rejectedDataPoints: String(refused.count), errorMessage } };
  },
});

/** Starts one on a free port of 127.0.0.1. */
export const startReceiver = async (options: ReceiverOptions): Promise<Receiver> => {
  const takes = takesOf(options);

  const answer = async (request: IncomingMessage): Promise<Answer> => {
    if (!isLoopbackHost(request.headers.host)) return refusal(403, "This collector is for this machine alone.");
    const path = (request.url ?? "").split("?")[0] ?? "";
    const take = Object.hasOwn(takes, path) ? takes[path] : undefined;
    if (take === undefined)
      return refusal(404, `There is no such path; there are ${Object.keys(takes).join(" and ")}.`);
    if (request.method !== "POST")
      return refusal(405, `${request.method} is not allowed here; allowed: POST.`, { Allow: "POST" });
    const refused = refusedBy(request);
    if (refused !== undefined) return refused;
    const body = await readBody(request, options.maxBodyBytes);
    if (body === undefined) return refusal(413, `The body is larger than ${options.maxBodyBytes} bytes.`);
    try {
      return { status: 200, body: take(body) };
    } catch (error) {
      if (error instanceof OtlpError) return refusal(400, error.message);
      throw error;
    }
  };

  const server = createServer((request, response) => {
    answer(request)
      .catch((error: unknown) => refusal(500, error instanceof Error ? error.message : "unknown"))
      .then(({ status, body, headers }) => {
        // Of a refused post nothing more is wanted, but it is read, so that the connection can be used again.
        request.resume();
        response.writeHead(status, { ...headers, "Content-Type": "application/json" });
        response.end(JSON.stringify(body));
      });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};
