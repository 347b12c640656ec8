/** A collector on loopback that fails in a way of the test's choice, changed from one export to the next: what a caller must not notice. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { vi } from "vitest";
import { startReceiver } from "./receiver.ts";

export interface Export {
  readonly path: string;
  readonly body: string;
}

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const status =
  (code: number, headers: Readonly<Record<string, string>> = {}, body = "{}"): Answer =>
  (response) =>
    void response.writeHead(code, headers).end(body);

const raw =
  (bytes: string): Answer =>
  (_response, { socket }) =>
    void socket.end(bytes);

/** Of the size that a proxy's page of an error does not have. */
const LARGE_CHARS = 4 * 1024 * 1024;
const TRICKLE_MS = 20;

/** Ways in which the answer is there at once, by what the Worker must take it for. */
const AT_ONCE = {
  healthy: status(200),
  "answers 500": status(500),
  "answers 429 with Retry-After": status(429, { "Retry-After": "120" }),
  "answers 503 with Retry-After": status(503, { "Retry-After": "120" }),
  "answers 400 with a large body": status(400, { "Content-Type": "text/plain" }, "no ".repeat(LARGE_CHARS / 3)),
  "closes the connection unanswered": (_response, { socket }) => void socket.destroy(),
  "closes the connection in the middle of the headers": raw("HTTP/1.1 200 OK\r\nContent-Le"),
  "answers garbage": raw("\u0000\u0001 this is no HTTP \r\n\r\n"),
} satisfies Record<string, Answer>;

/** It took the export by its status, whatever becomes of the body. */
const TAKEN = {
  "closes the connection in the middle of the body": (response) => {
    response.writeHead(200, { "Content-Length": "1000" }).write("{", () => response.destroy());
  },
  "answers headers and never ends the body": (response) => void response.writeHead(200).write("{"),
} satisfies Record<string, Answer>;

export type Ailment =
  | keyof typeof AT_ONCE
  | keyof typeof TAKEN
  | "refuses connections"
  | "redirects elsewhere"
  | "never answers"
  | "trickles its headers";

/** Every way to be ill. */
export const AILMENTS: readonly Exclude<Ailment, "healthy">[] = [
  "refuses connections",
  ...(Object.keys(AT_ONCE) as (keyof typeof AT_ONCE)[]).filter((name) => name !== "healthy"),
  ...(Object.keys(TAKEN) as (keyof typeof TAKEN)[]),
  "redirects elsewhere",
  "never answers",
  "trickles its headers",
];

/** Whether what is sent counts as delivered. */
export const takes = (ailment: Ailment): boolean => ailment === "healthy" || Object.hasOwn(TAKEN, ailment);

export interface FailingCollector {
  readonly url: string;
  /** What came since the last `ail`, in this way. */
  readonly exports: readonly Export[];
  /** Paths of what came to where it redirects: telemetry at an address that nobody configured. */
  readonly astray: readonly string[];
  /** Fails in this way from now on. */
  ail(ailment: Ailment): Promise<void>;
  /** Exports that wait for an answer. */
  held(): number;
  /** Ends those that wait: an answer of 503. */
  release(): void;
  close(): void;
}

/** Starts one; it is healthy. */
export const startFailingCollector = async (): Promise<FailingCollector> => {
  let ailment: Ailment = "healthy";
  let exports: Export[] = [];
  const astray: string[] = [];
  const waiting = new Set<() => void>();
  const elsewhere = await startReceiver(({ url = "" }, _body, response) => {
    astray.push(url);
    response.end("{}");
  });
  const hold = ({ socket }: IncomingMessage, end: () => void): void => {
    waiting.add(end);
    socket.once("close", () => waiting.delete(end));
  };
  const trickle = (request: IncomingMessage): void => {
    const { socket } = request;
    socket.write("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\nX-Slow: ");
    const timer = setInterval(() => socket.write("z"), TRICKLE_MS);
    socket.once("close", () => clearInterval(timer));
    hold(request, () => {
      clearInterval(timer);
      socket.end("\r\n\r\n");
    });
  };
  const answer: Answer = (response, request) => {
    switch (ailment) {
      // What was on its way when the door was closed.
      case "refuses connections":
        return void request.socket.destroy();
      case "redirects elsewhere":
        return void response.writeHead(307, { Location: `${elsewhere.url}${request.url}` }).end();
      case "never answers":
        return hold(request, () => response.writeHead(503).end());
      case "trickles its headers":
        return trickle(request);
      default:
        return { ...AT_ONCE, ...TAKEN }[ailment](response, request);
    }
  };
  const server = createServer((request, response) => {
    // A connection for each export: what one answer leaves of it must not fail the next in another way.
    response.setHeader("Connection", "close");
    text(request).then(
      (body) => {
        exports.push({ path: request.url ?? "", body });
        answer(response, request);
      },
      () => response.destroy(),
    );
  });
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get exports() {
      return exports;
    },
    get astray() {
      return astray;
    },
    ail: async (next) => {
      ailment = next;
      exports = [];
      if (next === "refuses connections") {
        server.closeAllConnections();
        await new Promise<void>((resolve) => server.close(() => resolve()));
      } else if (!server.listening) await listen(port);
    },
    held: () => waiting.size,
    release: () => {
      for (const end of waiting) end();
      waiting.clear();
    },
    close: () => {
      elsewhere.close();
      server.closeAllConnections();
      server.close();
    },
  };
};

/** Resolves once it is so; for exports, which come after the answer that they are about. */
export const eventually = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 20_000, interval: 20 });
