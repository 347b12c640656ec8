/** The line between a Worker and something that it calls: passes requests on, unless the faults say otherwise. */
import { createServer, type IncomingMessage, request as open, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Faults, Kind } from "./faults.ts";

export interface LineOptions {
  readonly worker: string;
  readonly kind: Kind;
  /** Where requests go. */
  readonly upstream: string;
  readonly faults: Faults;
  /** What a call is, in a few words. */
  readonly label: (request: IncomingMessage, body: Buffer) => string;
  /** How this kind of service says that it failed; absent: the connection is cut. */
  readonly refuse?: (response: ServerResponse) => void;
}

export interface Line {
  readonly url: string;
  close(): void;
}

const bytesOf = async (stream: AsyncIterable<Buffer>): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
};

const asked = (upstream: string, request: IncomingMessage, body: Buffer, gone: AbortSignal): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const { "transfer-encoding": _, connection: __, ...headers } = request.headers;
    const { host, hostname, port, pathname, search } = new URL(request.url ?? "/", upstream);
    const sent = open(
      {
        hostname,
        port,
        path: `${pathname}${search}`,
        method: request.method ?? "GET",
        headers: { ...headers, host, "content-length": body.length },
        signal: gone,
        agent: false,
      },
      resolve,
    );
    sent.once("error", reject);
    sent.end(body);
  });

/** Writes one half of an answer, waits until it has left, and cuts the connection. */
const cutInTheMiddle = async (response: ServerResponse, answer: IncomingMessage): Promise<void> => {
  const body = await bytesOf(answer);
  response.writeHead(answer.statusCode ?? 500, answer.headers);
  await new Promise<void>((resolve) => response.write(body.subarray(0, body.length >> 1), () => resolve()));
};

export const startLine = async (options: LineOptions): Promise<Line> => {
  const { worker, kind, upstream, faults } = options;
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bytesOf(request);
    const { mode, done, kill, released } = faults.verdict({ worker, kind, label: options.label(request, body) });
    const cut = () => request.socket.destroy();
    if (mode === "killed before it") {
      await kill();
      cut();
      return done();
    }
    if (mode === "refused") {
      if (options.refuse === undefined) cut();
      else options.refuse(response);
      return done();
    }
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    if (mode === "late" || mode === "cancelled") {
      done();
      await released;
    }
    const answer = await asked(upstream, request, body, gone.signal);
    if (mode === "killed after it") {
      await bytesOf(answer);
      await kill();
      cut();
      return done();
    }
    if (mode === "answer cut") {
      // Where nothing of an answer is of use without its end, its beginning is not worth sending.
      if (kind === "provider") await cutInTheMiddle(response, answer);
      else await bytesOf(answer);
      cut();
      return done();
    }
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    for await (const chunk of answer) response.write(chunk);
    response.end();
    done();
  };
  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
