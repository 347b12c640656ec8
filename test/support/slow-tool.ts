/** A client's tool that answers when it is told to. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface SlowTool {
  readonly url: string;
  /** Resolves once it is called. */
  readonly called: Promise<void>;
  answer(content: string): void;
  close(): void;
}

export const startSlowTool = async (): Promise<SlowTool> => {
  const called = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  const server = createServer(async (_request, response) => {
    called.resolve();
    const content = await answer.promise;
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ content }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    called: called.promise,
    answer: answer.resolve,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
