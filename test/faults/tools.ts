/** The endpoints of a caller's tools, which count what was done: by the id of the call. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Tools {
  readonly url: string;
  /** How often a call was done. */
  done(callId: string): number;
  close(): void;
}

/** Answers every call with the text that the path stands for. */
export const startTools = async (answers: Readonly<Record<string, string>>): Promise<Tools> => {
  const counts = new Map<string, number>();
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    // The queue's door stands here too, and says nothing.
    if (text !== "") {
      const id: string = JSON.parse(text).tool_use_id;
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    response.writeHead(200, { "content-type": "text/plain" }).end(answers[request.url ?? ""] ?? "done");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    done: (callId) => counts.get(callId) ?? 0,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
