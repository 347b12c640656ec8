/**
 * What is stored and what is sent: the words spoken between the rooms (store, context, models, agent).
 *
 * A message's content is JSON text, not objects (rule V9): integer-like keys, `1.0` and numbers beyond 2^53 do not survive
 * a parse, and one changed byte breaks the prompt cache and signed thinking. Code that must look inside parses a copy.
 */
import type { MessageId, RunId, Seq } from "./ids.ts";

export type Role = "user" | "assistant";

/** Where a row came from: architecture section 4. */
export type Origin = "user" | "event" | "assistant" | "tool" | "injected";

/** The JSON text of a non-empty array of Messages API content blocks. */
export type ContentText = string;

/** One row of the log, as loaded for a turn. */
export interface LogRow {
  readonly id: MessageId;
  readonly seq: Seq;
  readonly role: Role;
  readonly origin: Origin;
  readonly content: ContentText;
  /** Hashes of the media that the content refers to instead of holding it (rule V10). */
  readonly media: readonly string[];
  /** Ids of the client-side tool calls of an assistant row, in order. */
  readonly calls: readonly string[];
  /** Estimate of the row in tokens. */
  readonly tokens: number;
  /** Size of the content as sent, media inlined, in bytes. */
  readonly bytes: number;
  readonly runId: RunId | null;
  /** RFC 3339; absent in a row that was appended by this run and not read back. */
  readonly createdAt?: string;
}

/** A row about to be appended; the store gives it its seq. */
export type NewRow = Omit<LogRow, "seq" | "createdAt">;

/** Content blocks as far as hango looks into them; anything else passes through unread. */
export interface TextBlock {
  readonly type: "text";
  readonly text: string;
}
export interface MediaSource {
  readonly type: "base64" | "url" | "file" | "text";
  readonly media_type?: string;
  readonly data?: string;
  readonly url?: string;
}
export interface MediaBlock {
  readonly type: "image" | "document";
  readonly source: MediaSource;
}
export interface ToolUseBlock {
  readonly type: "tool_use";
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}
export interface ToolResultBlock {
  readonly type: "tool_result";
  readonly tool_use_id: string;
  readonly content?: string | readonly (TextBlock | MediaBlock)[];
  readonly is_error?: boolean;
}
export interface ThinkingBlock {
  readonly type: "thinking";
  readonly thinking: string;
  /** Empty for the reasoning of a chat completions server, which signs nothing. */
  readonly signature: string;
}
export type ContentBlock =
  | TextBlock
  | MediaBlock
  | ToolUseBlock
  | ToolResultBlock
  | ThinkingBlock
  | { readonly type: string };

/** A message of a request: the view's output and the provider's input. */
export interface ViewMessage {
  readonly role: Role;
  readonly content: ContentText;
  readonly media: readonly string[];
  /** Whether the last block of this message carries a cache mark (context.md section 10). */
  readonly cacheMark?: boolean;
  /** The message that stands where covered rows were (S4). */
  readonly handoff?: true;
  /** With `handoff`: a user's message stands behind it in the same message (R8). */
  readonly merged?: true;
}

export interface SystemBlock {
  readonly text: string;
  readonly cacheMark?: boolean;
}

/** A tool as the provider is told of it. */
export type ToolDefinition =
  | {
      readonly kind: "function";
      readonly name: string;
      readonly description: string;
      readonly inputSchema: Readonly<Record<string, unknown>>;
    }
  /** A tool that the provider runs itself (web search and the like), passed through as the caller gave it. */
  | { readonly kind: "provider"; readonly name: string; readonly definition: Readonly<Record<string, unknown>> };

export type ThinkingSetting =
  | { readonly type: "adaptive" }
  | { readonly type: "disabled" }
  | { readonly type: "enabled"; readonly budget_tokens: number };

/** One model call, before a provider puts it on its wire. */
export interface ModelRequest {
  readonly model: string;
  /** Most tokens that the answer may have. */
  readonly maxTokens: number;
  readonly system: readonly SystemBlock[];
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly ViewMessage[];
  readonly thinking?: ThinkingSetting;
}

/** Why the model stopped: messages-api.md, "Stop reasons". */
export type StopReason =
  | "end_turn"
  | "max_tokens"
  | "stop_sequence"
  | "tool_use"
  | "pause_turn"
  | "refusal"
  | "model_context_window_exceeded"
  | "compaction";

/** Tokens of one call as the provider counted them. The real prompt size is the sum of the three input counts. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
}

/** The size of the prompt that a usage reading is about, in tokens. */
export const promptTokens = (usage: Usage): number =>
  usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens;

/** A client-side tool call found in an answer. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The input as the provider streamed it (V9). */
  readonly inputText: string;
  /**
   * The input is no JSON object: cut off, or malformed. `inputText` is then the raw text, the stored block holds it as
   * `{"invalid_json": "..."}`, and the call is answered with an error result instead of being run.
   */
  readonly invalid?: true;
}

export interface ModelResponse {
  /** The provider's own id of the answer. */
  readonly id: string;
  readonly model: string;
  /** The answer's blocks as JSON text, tool input as streamed; `[]` when the model said nothing. */
  readonly content: ContentText;
  /** All text blocks joined. */
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly stopReason: StopReason;
  readonly usage: Usage;
  /** The provider counted nothing: `usage` holds zeros, and is no reading (E4). */
  readonly usageMissing?: true;
}
