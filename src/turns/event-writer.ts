/** A run's events: numbered, gathered until they are stored, and told to clients after that. */
import { type EventSink, withContent } from "../protocol/events.ts";
import type { RunId, Seq, SessionId } from "../protocol/ids.ts";
import type { NewEvent } from "../store/statements.ts";

export interface EventWriter {
  /** Tells clients of what is not stored. */
  tell(type: string, data: object): void;
  /**
   * Numbers an event and keeps it for the next write.
   * @param about the log row that it is about, and the content that clients get with it: a reader joins it from that row
   */
  note(type: string, data: object, about?: { readonly seq: Seq; readonly content: string }): void;
  /** The same for an event whose data is JSON text already, since it holds what the model wrote (V9). */
  noteText(type: string, data: string): void;
  /** Hands over what was noted. `publish` is called once it is stored. */
  take(): { readonly events: readonly NewEvent[]; readonly nextEvent: number; readonly publish: () => void };
}

export interface EventWriterOptions {
  readonly sessionId: SessionId;
  readonly runId: RunId;
  /** Number of the first event. */
  readonly nextEvent: number;
  readonly now: () => number;
  readonly sink: EventSink;
}

/** The lease makes the run the only writer of its session's events, so it may number them itself. */
export const createEventWriter = ({ sessionId, runId, nextEvent, now, sink }: EventWriterOptions): EventWriter => {
  let next = nextEvent;
  let noted: { readonly event: NewEvent; readonly data: string }[] = [];
  const nowText = (): string => new Date(now()).toISOString();
  return {
    tell: (type, data) => sink({ n: null, type, sessionId, runId, createdAt: nowText(), data: JSON.stringify(data) }),
    note: (type, data, about) => {
      const text = JSON.stringify(data);
      noted.push({
        event: { n: next++, type, data: text, messageSeq: about?.seq ?? null, createdAt: nowText() },
        data: about === undefined ? text : withContent(text, about.content),
      });
    },
    noteText: (type, data) => {
      noted.push({ event: { n: next++, type, data, messageSeq: null, createdAt: nowText() }, data });
    },
    take: () => {
      const taken = noted;
      noted = [];
      return {
        events: taken.map(({ event }) => event),
        nextEvent: next,
        publish: () => {
          for (const { event, data } of taken) {
            sink({ n: event.n, type: event.type, sessionId, runId, createdAt: event.createdAt, data });
          }
        },
      };
    },
  };
};
