/** Chat completions through OpenAI's SDK: OpenAI itself, or a server that speaks its protocol (vLLM, llama.cpp, Ollama, gateways). */

import { OpenAI } from "openai/client";
import { APIUserAbortError } from "openai/error";
import { isRecord } from "../protocol/is-record.ts";
import { wireModel } from "../protocol/model-name.ts";
import { AFTER_END_MS, type ClientOptions, DEFAULT_MAX_RETRIES, type ProviderSettings, withCall } from "./call.ts";
import { addChunk, finishChat, isFinished, newChatDraft } from "./chat-answer.ts";
import { type ChatBodyOptions, chatBody } from "./chat-body.ts";
import { chatErrorBody } from "./chat-errors.ts";
import { ModelError } from "./errors.ts";
import type { Capabilities, ModelInfo, Provider } from "./provider.ts";

export interface OpenAiSettings extends ProviderSettings {
  /** Undefined where the server wants none; no Authorization header is sent then. */
  readonly apiKey: string | undefined;
  /** With `/v1`, as the server documents it. */
  readonly baseURL: string;
  /** The server's template enforces alternating roles (R8). */
  readonly strictAlternation: boolean;
  /** Makes an id for a call whose own cannot be kept. */
  readonly newCallId: () => string;
}

/** Hosts that want what OpenAI's own models want, and take PDFs. */
const OPENAI_HOST = /(?:^|\.)openai\.com$|\.openai\.azure\.com$/;

/** The SDK refuses to be made without a key; the header that it would send is taken out. */
const NO_KEY = "none";

const clientOf =
  (apiKey: string | undefined) =>
  (options: ClientOptions): OpenAI =>
    // Every option is given: what is left out, the SDK takes from the environment (platform.md).
    new OpenAI({
      ...options,
      apiKey: apiKey ?? NO_KEY,
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
      ...(apiKey === undefined ? { defaultHeaders: { Authorization: null } } : {}),
    });

/** What this server's requests look like. */
export const chatOptions = (
  settings: Pick<OpenAiSettings, "baseURL" | "strictAlternation">,
): Omit<ChatBodyOptions, "model"> => {
  const isOpenAi = OPENAI_HOST.test(URL.parse(settings.baseURL)?.hostname ?? "");
  return {
    maxTokensField: isOpenAi ? "max_completion_tokens" : "max_tokens",
    files: isOpenAi,
    reasoning: !isOpenAi,
    strict: settings.strictAlternation,
  };
};

type Json = Readonly<Record<string, unknown>>;
/** Where servers say how long a prompt may be: vLLM, llama.cpp (the window in use, never the one trained for), OpenRouter, Groq. */
const windowOf = (entry: Json): number | undefined => {
  const meta = isRecord(entry.meta) ? entry.meta : {};
  return [entry.max_model_len, meta.n_ctx, entry.context_length, entry.context_window].find(
    (value): value is number => typeof value === "number" && Number.isSafeInteger(value) && value > 0,
  );
};

/** The description of a model in the list of a server; one that serves a single model answers to any name. */
const entryFor = (listed: unknown, name: string): Json | undefined => {
  const data = isRecord(listed) && Array.isArray(listed.data) ? listed.data.filter(isRecord) : [];
  return data.find(({ id }) => id === name) ?? (data.length === 1 ? data[0] : undefined);
};

/** Looks for an id among the calls of a request, as it stands in the stored text. */
const takenIn =
  (contents: readonly string[]) =>
  (id: string): boolean => {
    const literal = JSON.stringify(id);
    return contents.some((content) => content.includes(literal));
  };

const isStream = (value: unknown): value is AsyncIterable<unknown> => isRecord(value) && Symbol.asyncIterator in value;

/** A provider that calls chat completions. No state between calls, no timer or connection outlives one. */
export const openAiProvider = (settings: OpenAiSettings): Provider => {
  const maxRetries = settings.maxRetries ?? DEFAULT_MAX_RETRIES;
  const shared = { maxRetries, client: clientOf(settings.apiKey), errorBody: chatErrorBody };
  const capabilities: Capabilities = {
    promptCaching: false,
    tokenCounting: false,
    strictAlternation: settings.strictAlternation,
    thinking: "unsigned",
  };
  return {
    name: "openai",
    capabilities,

    generate: async (request, options) => {
      const dialect = chatOptions(settings);
      const model = wireModel(request.model);
      const user = options.user === undefined ? {} : { user: options.user };
      const body = await chatBody(request, { ...dialect, model, ...user }, settings.resolveMedia);
      return withCall(settings, options, { ...shared, body }, async (call) => {
        const draft = newChatDraft();
        try {
          // The raw stream: the SDK's own helpers read tool arguments, and end silently on an abort and without an end.
          const events: unknown = await call.client.post("/chat/completions", {
            ...call.requestOptions,
            body: {},
            stream: true,
          });
          if (!isStream(events)) throw new ModelError({ kind: "stream_cut" });
          for await (const chunk of events) {
            for (const delta of addChunk(draft, chunk)) options.onDelta?.(delta);
            // The usage comes behind the end, if it comes.
            if (isFinished(draft)) call.watch.touch(AFTER_END_MS);
          }
          if (call.watch.signal.aborted) throw new APIUserAbortError();
        } catch (error) {
          // A whole answer stays one, whatever happens to the connection afterwards.
          if (!isFinished(draft)) throw error;
        }
        return finishChat(draft, {
          requestId: call.requestId,
          model: request.model,
          maxTokens: request.maxTokens,
          isTaken: takenIn(request.messages.map(({ content }) => content)),
          newCallId: settings.newCallId,
        });
      });
    },

    countTokens: async () => {
      throw new ModelError({ kind: "not_found" }, { detail: "chat completions have no way to count tokens" });
    },

    modelInfo: (id, options) =>
      withCall(settings, options, { ...shared, body: undefined }, async (call): Promise<ModelInfo | undefined> => {
        const listed: unknown = await call.client.get("/models", call.requestOptions);
        const entry = entryFor(listed, wireModel(id));
        const maxInputTokens = entry === undefined ? undefined : windowOf(entry);
        return maxInputTokens === undefined ? undefined : { id, maxInputTokens, maxOutputTokens: null };
      }),
  };
};
