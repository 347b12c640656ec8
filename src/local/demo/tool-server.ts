/** The recorded session's tools, on loopback: answers every call with the result that was recorded for it. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { memberText } from "./recording.ts";

/** What a call must look like, and what it gets. */
export interface ExpectedCall {
  readonly toolUseId: string;
  readonly name: string;
  /** JSON text, compared byte for byte (V9). */
  readonly inputText: string;
  readonly content: unknown;
  readonly isError: boolean;
}

export interface ToolServer {
  /** Base of the tools' URLs. */
  readonly url: string;
  /** Calls answered so far. */
  readonly answered: () => number;
  /** Time since the last time this was asked in which at least one call was here, in ms. */
  readonly takeBusyMs: () => number;
  /** What was wrong with calls so far. */
  readonly problems: readonly string[];
  readonly close: () => Promise<void>;
}

export interface ToolServerOptions {
  readonly calls: readonly ExpectedCall[];
  /** ms, monotonic. */
  readonly now: () => number;
}

const callBody = z.object({ tool_use_id: z.string(), name: z.string(), input: z.unknown() });

const readText = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
};

const send = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
};

/** A clock that runs while at least one thing is under way. */
const busyClock = (now: () => number) => {
  let active = 0;
  let since = 0;
  let sumMs = 0;
  return {
    begin: (): void => {
      if (active === 0) since = now();
      active += 1;
    },
    end: (): void => {
      active -= 1;
      if (active === 0) sumMs += now() - since;
    },
    take: (): number => {
      const taken = sumMs;
      sumMs = 0;
      return taken;
    },
  };
};

/** Starts the server on a free port of 127.0.0.1. */
export const startToolServer = async ({ calls, now }: ToolServerOptions): Promise<ToolServer> => {
  const expected = new Map(calls.map((call) => [call.toolUseId, call]));
  const problems: string[] = [];
  const clock = busyClock(now);
  let answered = 0;

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await readText(request);
    const body = callBody.parse(JSON.parse(text));
    const call = expected.get(body.tool_use_id);
    if (call === undefined) {
      problems.push(
        `the tool ${body.name} was called as ${body.tool_use_id}, which nobody recorded or which was answered already`,
      );
      return send(response, 404, { content: "No such call was recorded.", is_error: true });
    }
    expected.delete(call.toolUseId);
    if (body.name !== call.name) problems.push(`call ${call.toolUseId} went to ${body.name} instead of ${call.name}`);
    if (memberText(text, "input") !== call.inputText)
      problems.push(`the input of call ${call.toolUseId} (${call.name}) came in other bytes`);
    answered += 1;
    send(response, 200, { content: call.content, ...(call.isError ? { is_error: true } : {}) });
  };

  const server = createServer((request, response) => {
    clock.begin();
    response.once("close", clock.end);
    answer(request, response).catch((error: unknown) => {
      problems.push(`a call could not be read: ${error instanceof Error ? error.message : String(error)}`);
      if (response.headersSent) response.destroy();
      else send(response, 400, { content: "The call could not be read.", is_error: true });
    });
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    answered: () => answered,
    takeBusyMs: clock.take,
    problems,
    close: () => {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      return closed.promise;
    },
  };
};
