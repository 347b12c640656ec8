/**
 * Every name that telemetry uses, in one place: OpenTelemetry's GenAI conventions where they have one, `hango.*` where they do not.
 * None of these carries content, but for the five that say so.
 */
import type { ModelRequest, ModelResponse } from "../protocol/messages.ts";
import type { Attributes } from "./tracer.ts";

/** What a provider call was for. */
export type CallPurpose = "turn" | "summarize" | "subagent";

export const genai = {
  operation: { chat: "chat", executeTool: "execute_tool", invokeAgent: "invoke_agent" },

  operationName: "gen_ai.operation.name",
  providerName: "gen_ai.provider.name",
  conversationId: "gen_ai.conversation.id",
  agentName: "gen_ai.agent.name",
  requestModel: "gen_ai.request.model",
  requestMaxTokens: "gen_ai.request.max_tokens",
  responseId: "gen_ai.response.id",
  responseModel: "gen_ai.response.model",
  finishReasons: "gen_ai.response.finish_reasons",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadTokens: "gen_ai.usage.cache_read.input_tokens",
  cacheWriteTokens: "gen_ai.usage.cache_creation.input_tokens",
  tokenType: "gen_ai.token.type",
  toolName: "gen_ai.tool.name",
  toolCallId: "gen_ai.tool.call.id",
  toolType: "gen_ai.tool.type",
  /** With `HANGO_CAPTURE_CONTENT` alone, like the four after it. */
  systemInstructions: "gen_ai.system_instructions",
  inputMessages: "gen_ai.input.messages",
  outputMessages: "gen_ai.output.messages",
  toolArguments: "gen_ai.tool.call.arguments",
  toolResult: "gen_ai.tool.call.result",
  /** An event of the turn's span, and an attribute of the next `chat` span. */
  compacted: "gen_ai.conversation.compacted",
} as const;

export const hango = {
  callPurpose: "hango.call.purpose",
  runId: "hango.run.id",
  runStatus: "hango.run.status",
  runTrigger: "hango.run.trigger",
  messageType: "hango.queue.message.type",
  turnSteps: "hango.turn.steps",
  tokensBefore: "hango.tokens.before",
  tokensAfter: "hango.tokens.after",
  messagesEvicted: "hango.messages.evicted",
  compactionReason: "hango.compaction.reason",
  compactionOutcome: "hango.compaction.outcome",
  compactionGeneration: "hango.compaction.generation",
  fsPath: "hango.fs.path",
  guard: "guard",
  /** An event of the turn's span. */
  overflowRetry: "provider.context_overflow_retry",
} as const;

/** OpenTelemetry's names for HTTP and for errors. */
export const http = {
  method: "http.request.method",
  route: "http.route",
  status: "http.response.status_code",
  errorType: "error.type",
} as const;

/** OpenTelemetry's names for messaging. */
export const messaging = {
  system: "messaging.system",
  operationType: "messaging.operation.type",
  destination: "messaging.destination.name",
  messageId: "messaging.message.id",
} as const;

/** Names of the histograms and counters; `instruments.ts` says what each is. */
export const metric = {
  contextInputTokens: "hango.context.input_tokens",
  contextCompactions: "hango.context.compactions",
  contextEvictedMessages: "hango.context.evicted_messages",
  toolArgsTruncated: "hango.context.tool_args_truncated",
  tokenUsage: "gen_ai.client.token.usage",
  operationDuration: "gen_ai.client.operation.duration",
  cost: "hango.usage.cost",
  runsStranded: "hango.runs.stranded",
  deadLetters: "hango.queue.dead_letters",
  requestDuration: "http.server.request.duration",
  cacheReadRatio: "hango.cache.read_ratio",
  turnDuration: "hango.turn.duration",
  turnOverhead: "hango.turn.overhead",
  dbRoundTrips: "hango.db.round_trips",
  guardBlocked: "hango.guard.blocked",
} as const;

/** Attributes of a `chat` span. */
export const chatAttributes = {
  request: (provider: string, request: ModelRequest, purpose: CallPurpose): Attributes => ({
    [genai.operationName]: genai.operation.chat,
    [genai.providerName]: provider,
    [genai.requestModel]: request.model,
    [genai.requestMaxTokens]: request.maxTokens,
    [hango.callPurpose]: purpose,
  }),
  /** The conventions' input tokens are the whole prompt, cached parts included. */
  response: ({ id, model, stopReason, usage }: ModelResponse): Attributes => ({
    [genai.responseId]: id,
    [genai.responseModel]: model,
    [genai.finishReasons]: [stopReason],
    [genai.inputTokens]: usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
    [genai.outputTokens]: usage.outputTokens,
    [genai.cacheReadTokens]: usage.cacheReadTokens,
    [genai.cacheWriteTokens]: usage.cacheWriteTokens,
  }),
};

/** Attributes of a turn's `invoke_agent` span. */
export const turnAttributes = (sessionId: string, runId: string, agent = "hango"): Attributes => ({
  [genai.operationName]: genai.operation.invokeAgent,
  [genai.agentName]: agent,
  [genai.conversationId]: sessionId,
  [hango.runId]: runId,
});
