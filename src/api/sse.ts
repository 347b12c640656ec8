/**
 * Server-sent events (why our own: docs/decisions). Takes events without ever making the run wait: a slow client loses deltas first,
 * then its connection, and attaches again with `Last-Event-ID`; a client that is gone is noticed and left.
 */
import type { RunEvent } from "../protocol/events.ts";

/** With more than this waiting, in UTF-16 units, events that can be had again from the message itself are dropped. */
const DELTAS_UNTIL = 1_000_000;
/** With more than this waiting the client is given up. */
const GIVE_UP_AT = 8_000_000;

export interface EventStream {
  readonly response: Response;
  /** Never throws and never waits. */
  send(event: RunEvent): void;
  /** Sends what is waiting, then ends the response. */
  close(): Promise<void>;
  /** Aborted when the client is gone. */
  readonly gone: AbortSignal;
}

/** The event on the wire. The data's JSON may have been written over several lines by whoever sent it; here it must be one. */
export const encodeEvent = (event: RunEvent): string => {
  const head = JSON.stringify({
    type: event.type,
    session_id: event.sessionId,
    run_id: event.runId,
    created_at: event.createdAt,
  });
  const data = event.data === "{}" ? head : `${head.slice(0, -1)},${event.data.trimStart().slice(1)}`;
  const id = event.n === null ? "" : `id: ${event.n}\n`;
  return `${id}event: ${event.type}\ndata: ${data.replace(/[\r\n]+/g, " ")}\n\n`;
};

export interface EventStreamOptions {
  /** The request's signal, aborted when its client leaves. */
  readonly signal: AbortSignal;
  readonly heartbeatMs: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Opens an event stream as a response. */
export const openEventStream = ({ signal, heartbeatMs, headers = {} }: EventStreamOptions): EventStream => {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const leaving = new AbortController();
  const left = new Promise<void>((resolve) =>
    leaving.signal.addEventListener("abort", () => resolve(), { once: true }),
  );
  let waiting: string[] = [];
  let waitingSize = 0;
  let pumping: Promise<void> | null = null;

  const leave = (): void => {
    clearInterval(heartbeat);
    if (leaving.signal.aborted) return;
    leaving.abort();
    waiting = [];
    // Whether this settles, and how, differs by runtime version; nobody waits for it.
    writer.abort().catch(() => undefined);
  };

  const pump = async (): Promise<void> => {
    while (waiting.length > 0 && !leaving.signal.aborted) {
      const chunk = encoder.encode(waiting.join(""));
      waiting = [];
      waitingSize = 0;
      try {
        // A write to a client that has gone may hang for ever.
        await Promise.race([writer.write(chunk), left]);
      } catch {
        leave();
      }
    }
    pumping = null;
  };

  const push = (text: string): void => {
    if (leaving.signal.aborted) return;
    waiting.push(text);
    waitingSize += text.length;
    if (waitingSize > GIVE_UP_AT) leave();
    else pumping ??= pump();
  };

  const heartbeat = setInterval(() => push(": keep-alive\n\n"), heartbeatMs);
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });

  return {
    gone: leaving.signal,
    response: new Response(readable, {
      headers: {
        ...headers,
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-store, no-transform",
        "X-Accel-Buffering": "no",
      },
    }),
    send: (event) => {
      if (event.n === null && waitingSize > DELTAS_UNTIL) return;
      push(encodeEvent(event));
    },
    close: async () => {
      clearInterval(heartbeat);
      signal.removeEventListener("abort", leave);
      if (pumping !== null) await pumping;
      if (!leaving.signal.aborted) await Promise.race([writer.close().catch(() => undefined), left]);
    },
  };
};
