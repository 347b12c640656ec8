/** The events of a run, as clients receive them (api.md, "Streaming"). */
import type { RunId, SessionId } from "./ids.ts";

/** An event on its way to clients. */
export interface RunEvent {
  /** Position in the session's stream; null for what is not stored and cannot be asked for again. */
  readonly n: number | null;
  readonly type: string;
  readonly sessionId: SessionId;
  readonly runId: RunId;
  /** RFC 3339. */
  readonly createdAt: string;
  /** JSON text of an object: what is particular to this type. */
  readonly data: string;
}

/** Takes events as they come; must neither throw nor wait. */
export type EventSink = (event: RunEvent) => void;

/**
 * An event's data with the content that it is about. What is stored is the data alone; the content is joined from the log, so that it is
 * kept once and told in the same bytes each time (V9).
 */
export const withContent = (data: string, content: string): string =>
  data === "{}" ? `{"content":${content}}` : `${data.slice(0, -1)},"content":${content}}`;
