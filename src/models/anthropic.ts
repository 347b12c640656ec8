/** The Messages API through Anthropic's SDK: Anthropic itself, or any server that speaks its protocol. */
import Anthropic from "@anthropic-ai/sdk";
import { addEvent, finishAnswer, isWhole, newAnswer } from "./answer.ts";
import { AFTER_END_MS, type ClientOptions, DEFAULT_MAX_RETRIES, type ProviderSettings, withCall } from "./call.ts";
import { ModelError } from "./errors.ts";
import type { Capabilities, ModelInfo, Provider } from "./provider.ts";
import { anthropicBody, anthropicCountBody } from "./request-body.ts";

export interface AnthropicSettings extends ProviderSettings {
  readonly apiKey: string;
  /** Without `/v1`; given even for Anthropic itself, since the SDK would otherwise read the environment (platform.md). */
  readonly baseURL: string;
  /** What a server that only speaks the protocol cannot do. */
  readonly capabilities?: Partial<Capabilities>;
}

const CAPABILITIES: Capabilities = {
  promptCaching: true,
  tokenCounting: true,
  strictAlternation: false,
  thinking: "signed",
};

/** A client with every option given (platform.md). */
const clientOf =
  (apiKey: string) =>
  (options: ClientOptions): Anthropic =>
    new Anthropic({ ...options, apiKey, authToken: null, webhookKey: null, openTelemetry: false });

/** Stands in for the parameters that the SDK would serialise; the body that is sent is the text. */
const STAND_IN = { model: "", max_tokens: 1, messages: [] };

/** A provider that calls the Messages API. No state between calls, no timer or connection outlives one. */
export const anthropicProvider = (settings: AnthropicSettings): Provider => {
  const capabilities: Capabilities = { ...CAPABILITIES, ...settings.capabilities };
  const maxRetries = settings.maxRetries ?? DEFAULT_MAX_RETRIES;
  const client = clientOf(settings.apiKey);
  return {
    name: "anthropic",
    capabilities,

    generate: async (request, options) => {
      const body = await anthropicBody(
        request,
        {
          stream: true,
          promptCaching: capabilities.promptCaching,
          ...(options.user === undefined ? {} : { user: options.user }),
        },
        settings.resolveMedia,
      );
      return withCall(settings, options, { body, maxRetries, client }, async (call) => {
        const answer = newAnswer();
        try {
          // Not `stream()`: it parses tool input as it goes, at a cost, and fails for good where the model wrote broken JSON.
          // What `stream()` guards against is checked here: an answer without its end, and an iteration ended by an abort.
          const events = await call.client.messages.create({ ...STAND_IN, stream: true }, call.requestOptions);
          for await (const event of events) {
            const delta = addEvent(answer, event);
            if (answer.stopped) call.watch.touch(AFTER_END_MS);
            if (delta) options.onDelta?.(delta);
          }
          if (call.watch.signal.aborted) throw new Anthropic.APIUserAbortError();
        } catch (error) {
          // A whole answer stays one, whatever happens to the connection afterwards.
          if (!isWhole(answer)) throw error;
        }
        return finishAnswer(answer, call.requestId);
      });
    },

    countTokens: async (request, options) => {
      const body = await anthropicCountBody(request, settings.resolveMedia);
      // No second attempt: the caller has an estimate to fall back on (E5).
      return withCall(settings, options, { body, maxRetries: 0, client }, async (call) => {
        const { input_tokens: tokens } = await call.client.messages.countTokens(STAND_IN, call.requestOptions);
        if (!Number.isSafeInteger(tokens))
          throw new ModelError({ kind: "server" }, { detail: "a count without a number" });
        return tokens;
      });
    },

    modelInfo: (id, options) =>
      withCall(
        settings,
        options,
        { body: undefined, maxRetries, client },
        async (call): Promise<ModelInfo | undefined> => {
          try {
            const info = await call.client.models.retrieve(id, {}, call.requestOptions);
            const { max_input_tokens: maxInputTokens, max_tokens: maxOutputTokens } = info;
            return typeof maxInputTokens === "number" && typeof maxOutputTokens === "number"
              ? { id: info.id, maxInputTokens, maxOutputTokens }
              : undefined;
          } catch (error) {
            if (error instanceof Anthropic.NotFoundError) return undefined;
            throw error;
          }
        },
      ),
  };
};
