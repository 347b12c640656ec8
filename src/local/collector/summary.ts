/** What a trace comes to: the line of the list, and what happened to the context in it. Pure. */
import { genai, hango, http } from "../../telemetry/genai.ts";
import type { Attributes, Span, SpanEvent } from "./otlp.ts";
import type { Trace } from "./span-store.ts";
import { layOut } from "./waterfall.ts";

/** A compaction as its event tells it; undefined where the event says nothing. */
export interface Compaction {
  readonly tokensBefore: number | undefined;
  readonly tokensAfter: number | undefined;
  readonly messagesEvicted: number | undefined;
  readonly reason: string | undefined;
  readonly outcome: string | undefined;
  readonly generation: number | undefined;
  readonly path: string | undefined;
}

export interface TraceSummary {
  readonly traceId: string;
  /** Of its first root. */
  readonly name: string;
  readonly startMs: number;
  readonly durationMs: number;
  readonly spanCount: number;
  readonly errorCount: number;
  readonly httpStatus: number | undefined;
  /** The session, where a turn ran in it. */
  readonly conversationId: string | undefined;
  readonly modelCalls: number;
  readonly summaryCalls: number;
  readonly toolCalls: number;
  readonly compactions: readonly Compaction[];
}

/** What a span is about, for its colour and its words. */
export type Role = "agent" | "chat" | "summarizer" | "tool" | "server" | "client" | "other";

/** What a span is about: by the GenAI operation, and by its kind where it has none. */
export const roleOf = ({ attributes, kind }: Span): Role => {
  const operation = attributes[genai.operationName];
  if (operation === genai.operation.invokeAgent) return "agent";
  if (operation === genai.operation.executeTool) return "tool";
  if (operation === genai.operation.chat) return attributes[hango.callPurpose] === "summarize" ? "summarizer" : "chat";
  if (kind === "server" || kind === "consumer") return "server";
  return kind === "client" || kind === "producer" ? "client" : "other";
};

const numberIn = (attributes: Attributes, key: string): number | undefined => {
  const value = attributes[key];
  return typeof value === "number" ? value : undefined;
};

const textIn = (attributes: Attributes, key: string): string | undefined => {
  const value = attributes[key];
  return typeof value === "string" ? value : undefined;
};

export const isCompaction = ({ name }: SpanEvent): boolean => name === genai.compacted;

export const compactionOf = ({ attributes }: SpanEvent): Compaction => ({
  tokensBefore: numberIn(attributes, hango.tokensBefore),
  tokensAfter: numberIn(attributes, hango.tokensAfter),
  messagesEvicted: numberIn(attributes, hango.messagesEvicted),
  reason: textIn(attributes, hango.compactionReason),
  outcome: textIn(attributes, hango.compactionOutcome),
  generation: numberIn(attributes, hango.compactionGeneration),
  path: textIn(attributes, hango.fsPath),
});

export const summarise = ({ traceId, spans }: Trace): TraceSummary => {
  const { startMs, durationMs, rows } = layOut(spans);
  const root = rows[0]?.span;
  const count = (role: Role): number => spans.filter((span) => roleOf(span) === role).length;
  const agent = spans.find((span) => roleOf(span) === "agent");
  return {
    traceId,
    name: root?.name ?? "",
    startMs,
    durationMs,
    spanCount: spans.length,
    errorCount: spans.filter(({ isError }) => isError).length,
    httpStatus: root === undefined ? undefined : numberIn(root.attributes, http.status),
    conversationId: agent === undefined ? undefined : textIn(agent.attributes, genai.conversationId),
    modelCalls: count("chat"),
    summaryCalls: count("summarizer"),
    toolCalls: count("tool"),
    compactions: spans.flatMap(({ events }) => events.filter(isCompaction).map(compactionOf)),
  };
};
