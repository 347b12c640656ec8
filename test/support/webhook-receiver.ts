/** A receiver of webhooks: keeps what it gets and answers as it is told. */
import type { IncomingHttpHeaders } from "node:http";
import { Webhook } from "standardwebhooks";
import { startReceiver } from "./receiver.ts";

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  // biome-ignore lint/suspicious/noExplicitAny: what is read here is asserted on right away
  readonly json: any;
}

export interface WebhookAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Never answers. */
  readonly silent?: true;
  /** Closes the connection instead. */
  readonly cut?: true;
}

export interface WebhookReceiver {
  readonly url: string;
  readonly received: readonly Received[];
  /** What the next requests are answered with, in order; 204 when there is nothing more. */
  answer(...answers: readonly WebhookAnswer[]): void;
  /** The request of this index, as soon as it has come. */
  request(index: number): Promise<Received>;
  close(): void;
}

/** Whether the request is signed with this secret, by the official library, whose tolerance is against the real clock. */
export const isSigned = ({ headers, body }: Received, secret: string): boolean => {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
};

export const startWebhookReceiver = async (): Promise<WebhookReceiver> => {
  const received: Received[] = [];
  const answers: WebhookAnswer[] = [];
  let came = Promise.withResolvers<void>();
  const { url, close } = await startReceiver((request, body, response) => {
    received.push({ path: request.url ?? "", headers: request.headers, body, json: JSON.parse(body) });
    came.resolve();
    came = Promise.withResolvers();
    const { status = 204, headers = {}, body: text, silent, cut } = answers.shift() ?? {};
    if (cut) request.socket.destroy();
    else if (!silent) response.writeHead(status, { ...headers, Connection: "close" }).end(text);
  });
  const request = async (index: number): Promise<Received> => {
    for (;;) {
      const found = received[index];
      if (found !== undefined) return found;
      await came.promise;
    }
  };
  return {
    url,
    received,
    answer: (...more) => {
      answers.push(...more);
    },
    request,
    close,
  };
};
