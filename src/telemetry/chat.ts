/** A model call as telemetry sees it, whoever makes it: one `chat` span, and the metrics of its time, tokens, cache and cost. */
import { type ModelRequest, type ModelResponse, promptTokens, type Usage } from "../protocol/messages.ts";
import { redact } from "../protocol/redact.ts";
import type { Content } from "./content.ts";
import { type CallPurpose, chatAttributes, genai, hango, http, metric } from "./genai.ts";
import type { Meter } from "./meter.ts";
import { type Attributes, errorType, type Span, type Tracer } from "./tracer.ts";

export interface ChatTelemetry {
  readonly tracer: Tracer;
  readonly meter: Meter;
  readonly content: Content;
  /** Ms; measures, and decides nothing. */
  readonly now: () => number;
}

export interface ObservedCall {
  /** `gen_ai.provider.name`. */
  readonly provider: string;
  readonly request: ModelRequest;
  readonly purpose: CallPurpose;
  readonly parent: Span;
  /** More of the span. */
  readonly attributes?: Attributes;
  /** By the list prices of the model, in USD; null where none are known. */
  readonly costUsd: (usage: Usage) => number | null;
}

/** What an error says of a call that was paid for though it failed. */
const paidBy = (error: unknown): Usage | null => {
  const paid: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "paid") : null;
  return typeof paid === "object" && paid !== null ? (Reflect.get(paid, "usage") as Usage) : null;
};

/** The caller's word, which names a span and tells the points of a metric apart: nobody takes a secret out of those later (S6). */
const modelName = ({ model }: ModelRequest): string => redact(model).text;

/** Tokens and cost of a call. */
const recordUsage = (
  { meter }: ChatTelemetry,
  { provider, request, purpose, costUsd }: ObservedCall,
  usage: Usage,
): void => {
  const model = modelName(request);
  const of = { [genai.requestModel]: model, [hango.callPurpose]: purpose };
  const common = { ...of, [genai.operationName]: genai.operation.chat, [genai.providerName]: provider };
  const prompt = promptTokens(usage);
  meter.record(metric.tokenUsage, prompt, { ...common, [genai.tokenType]: "input" });
  meter.record(metric.tokenUsage, usage.outputTokens, { ...common, [genai.tokenType]: "output" });
  const cost = costUsd(usage);
  if (cost !== null) meter.add(metric.cost, cost, of);
  // A summariser's prompt is no session's context, and is never cached.
  if (purpose === "summarize" || prompt === 0) return;
  meter.record(metric.contextInputTokens, prompt, { [genai.requestModel]: model });
  meter.record(metric.cacheReadRatio, usage.cacheReadTokens / prompt, { [genai.requestModel]: model });
};

/**
 * Makes a model call inside its span.
 * @param work the call itself
 * @returns what `work` returned @throws what it threw
 */
export const observeChat = (
  telemetry: ChatTelemetry,
  call: ObservedCall,
  work: () => Promise<ModelResponse>,
): Promise<ModelResponse> => {
  const { tracer, meter, content, now } = telemetry;
  const { provider, request, purpose, parent } = call;
  const model = modelName(request);
  const attributes = {
    ...chatAttributes.request(provider, request, purpose),
    ...call.attributes,
    ...content.request(request),
  };
  return tracer.span(`${genai.operation.chat} ${model}`, { kind: "client", parent, attributes }, async (span) => {
    const startedMs = now();
    let failure: string | undefined;
    try {
      const response = await work();
      span.setAttributes({ ...chatAttributes.response(response), ...content.response(response) });
      // What the provider did not count is nothing to count.
      if (response.usageMissing !== true) recordUsage(telemetry, call, response.usage);
      return response;
    } catch (error) {
      failure = errorType(error);
      const paid = paidBy(error);
      if (paid !== null) recordUsage(telemetry, call, paid);
      throw error;
    } finally {
      meter.record(metric.operationDuration, (now() - startedMs) / 1000, {
        [genai.operationName]: genai.operation.chat,
        [genai.providerName]: provider,
        [genai.requestModel]: model,
        [hango.callPurpose]: purpose,
        [http.errorType]: failure,
      });
    }
  });
};
