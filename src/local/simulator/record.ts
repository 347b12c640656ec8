/** Every request the simulator received, for tests to read. */
import type { IncomingHttpHeaders } from "node:http";

export interface ReceivedRequest {
  readonly index: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The body's text as received; "" once newer requests have pushed it out of memory. */
  readonly bodyText: string;
  /** The body parsed, or undefined where it is no JSON. */
  readonly body: unknown;
  /** Status of the answer; 0 while there is none. */
  readonly status: number;
  /** When it came, ms since the epoch by the injected clock. */
  readonly timeMs: number;
  /** When its answer ended, by the same clock; null while it has not. */
  readonly endedMs: number | null;
  readonly purpose: "turn" | "summarize" | undefined;
  /** What an error answer said. */
  readonly error: string | undefined;
  /** `open` while the answer is being sent, `aborted` when the client went away before its end. */
  readonly outcome: "open" | "answered" | "cut" | "aborted";
}

/** Body text kept in memory, in characters. */
const MAX_KEPT_CHARACTERS = 96 * 1024 * 1024;

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

type Mutable = { -readonly [Key in keyof Omit<ReceivedRequest, "body">]: ReceivedRequest[Key] };

export const createRecord = () => {
  const list: ReceivedRequest[] = [];
  const slots: Mutable[] = [];
  let kept = 0;
  let oldest = 0;
  return {
    list: list as readonly ReceivedRequest[],
    /** @returns the record of the request, to be filled in as it is answered */
    add: (received: Pick<ReceivedRequest, "method" | "path" | "headers" | "timeMs">): Mutable => {
      const slot: Mutable = {
        ...received,
        index: slots.length,
        bodyText: "",
        status: 0,
        endedMs: null,
        purpose: undefined,
        error: undefined,
        outcome: "open",
      };
      slots.push(slot);
      // Parsed only when read: a long replay would otherwise hold every body twice.
      list.push(
        Object.defineProperty(slot, "body", { enumerable: true, get: () => parse(slot.bodyText) }) as Mutable & {
          readonly body: unknown;
        },
      );
      return slot;
    },
    /** Gives a record its body, and lets go of the oldest bodies when there are too many. */
    keep: (slot: Mutable, bodyText: string): void => {
      slot.bodyText = bodyText;
      kept += bodyText.length;
      for (; kept > MAX_KEPT_CHARACTERS && oldest < slots.length - 1; oldest += 1) {
        const old = slots[oldest];
        if (old === undefined) break;
        kept -= old.bodyText.length;
        old.bodyText = "";
      }
    },
    clear: (): void => {
      list.length = 0;
      slots.length = 0;
      kept = 0;
      oldest = 0;
    },
  };
};

export type RequestRecord = ReturnType<typeof createRecord>;
export type RecordSlot = Mutable;
