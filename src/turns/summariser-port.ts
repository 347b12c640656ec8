/** The summariser's call, as compaction sees it (S7): its own span, its own usage row, nothing of it in the caller's stream. */
import { defaultEstimator } from "../context/estimate-request.ts";
import type { SummariserPort, SummaryFailure } from "../context/ports.ts";
import { type FailureKind, ModelError } from "../models/errors.ts";
import { costUsd } from "../models/prices.ts";
import type { ModelProfile } from "../models/profiles.ts";
import type { Provider } from "../models/provider.ts";
import type { ModelRequest, Usage } from "../protocol/messages.ts";
import { type ChatTelemetry, observeChat } from "../telemetry/chat.ts";
import type { Span } from "../telemetry/tracer.ts";
import { TurnTimedOut } from "./failure.ts";
import type { Tally } from "./tally.ts";

/** Longest summary call, in ms, from its start (S7). Silence has the provider's own limit. */
const CEILING_MS = 600_000;

const FAILURES: Readonly<Record<FailureKind, SummaryFailure>> = {
  context_overflow: "too_long",
  too_large: "too_long",
  rate_limited: "overloaded",
  overloaded: "overloaded",
  authentication: "authentication",
  permission: "authentication",
  quota: "quota",
  not_found: "configuration",
  invalid_request: "configuration",
  invalid_thinking_signature: "configuration",
  network: "network",
  timeout: "timeout",
  stream_cut: "malformed",
  server: "transient",
  aborted: "transient",
};

export interface SummariserOptions {
  readonly provider: Provider;
  readonly model: string;
  readonly profile: ModelProfile;
  readonly telemetry: ChatTelemetry;
  readonly span: Span;
  readonly signal: AbortSignal;
  readonly now: () => number;
  /** The turn's deadline, ms since the epoch. */
  readonly deadlineMs: number;
  readonly addApart: Tally["addApart"];
  readonly onProviderTime: (durationMs: number) => void;
  readonly heartbeat: () => void;
}

export const summariserPort = (options: SummariserOptions): SummariserPort => ({
  model: options.model,
  // Its input is measured before the model's tokenizer is taken into account.
  windowTokens: Math.floor(options.profile.maxInputTokens / defaultEstimator.scale(options.model)),
  failureOf: (error) => {
    // A turn whose time was over while its summary was written must not begin the same again at once; any other end says nothing of the summariser.
    if (options.signal.aborted) return options.signal.reason instanceof TurnTimedOut ? "timeout" : null;
    return error instanceof ModelError ? FAILURES[error.kind] : "transient";
  },
  call: async ({ system, prompt, maxTokens }) => {
    const { provider, model, profile, telemetry, span, now } = options;
    const request: ModelRequest = {
      model,
      maxTokens: Math.min(maxTokens, profile.maxOutputTokens),
      system: [{ text: system }],
      tools: [],
      messages: [{ role: "user", content: JSON.stringify([{ type: "text", text: prompt }]), media: [] }],
    };
    const observed = {
      provider: provider.name,
      request,
      purpose: "summarize",
      parent: span,
      costUsd: (usage: Usage) => costUsd(profile.prices, usage),
    } as const;
    const startedMs = now();
    try {
      const response = await observeChat(telemetry, observed, () =>
        provider.generate(request, {
          signal: options.signal,
          deadlineMs: Math.min(options.deadlineMs, startedMs + CEILING_MS),
          onDelta: options.heartbeat,
        }),
      );
      const { text, stopReason, usage } = response;
      options.addApart({ purpose: "summarize", model: response.model, usage, prices: profile.prices });
      return { text, stopReason, usage, model: response.model };
    } finally {
      options.onProviderTime(now() - startedMs);
    }
  },
});
