/** A server on loopback that is sent things: tools' calls, a collector's spans. A request that is cut off in the middle is no request. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Receiver {
  readonly url: string;
  close(): void;
}

export type Receive = (request: IncomingMessage, body: string, response: ServerResponse) => void;

export const startReceiver = async (receive: Receive): Promise<Receiver> => {
  const server = createServer((request, response) => {
    text(request).then(
      (body) => receive(request, body, response),
      // Whoever closes the connections cuts off what is under way.
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
