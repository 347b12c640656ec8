/** A model provider, as the agent sees it. Implementations: `anthropic.ts`, `openai.ts`. */
import type { ContentText, ModelRequest, ModelResponse } from "../protocol/messages.ts";

export interface Capabilities {
  /** Understands cache marks; without it none are sent (context.md section 10). */
  readonly promptCaching: boolean;
  /** `countTokens` asks the provider. */
  readonly tokenCounting: boolean;
  /** Refuses consecutive messages of one role (R8). */
  readonly strictAlternation: boolean;
  /** What thinking it takes back: blocks that it signed itself, unchanged, or reasoning that nobody signs (V5). */
  readonly thinking: "signed" | "unsigned";
}

/**
 * What arrives while an answer is being written. `index` is the block's position in the provider's answer; `offset` counts
 * the UTF-16 units of the block's text before this piece. `progress` says that something else came: tool input, a new block.
 */
export type StreamDelta =
  | { readonly kind: "text" | "thinking"; readonly index: number; readonly offset: number; readonly text: string }
  | { readonly kind: "progress" };

export interface CallOptions {
  /** Aborts the call; the promise then rejects with `CallAborted`. */
  readonly signal: AbortSignal;
  /** The turn's deadline, ms since the epoch: retries and time-outs never reach past it. */
  readonly deadlineMs: number;
  /** Called for every piece; must not throw. */
  readonly onDelta?: (delta: StreamDelta) => void;
  /** The end user, passed to the provider as an opaque id. */
  readonly user?: string;
}

export interface ModelInfo {
  readonly id: string;
  readonly maxInputTokens: number;
  /** Null where the provider does not say. */
  readonly maxOutputTokens: number | null;
}

/**
 * Puts stored media back into a message (rule V10): replaces every `"data":"hango:media/sha256-..."` of the listed hashes
 * by the text that stood there, base64 for an image, and leaves every other byte alone. Asked only for messages with media.
 */
export type ResolveMedia = (content: ContentText, media: readonly string[]) => Promise<ContentText>;

export interface Provider {
  /** `gen_ai.provider.name`. */
  readonly name: string;
  readonly capabilities: Capabilities;
  /**
   * Makes one call and waits for the whole answer.
   * @throws ModelError (`models/errors.ts`), of a kind for every way it can fail; an answer without a stop reason is a failure
   */
  generate(request: ModelRequest, options: CallOptions): Promise<ModelResponse>;
  /** The provider's own count of the request's tokens. @throws ModelError */
  countTokens(request: ModelRequest, options: CallOptions): Promise<number>;
  /** The provider's description of a model, or undefined when it knows none of that name. @throws ModelError */
  modelInfo(id: string, options: CallOptions): Promise<ModelInfo | undefined>;
}
