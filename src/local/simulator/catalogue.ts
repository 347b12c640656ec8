/** The models the simulator knows: windows and behaviour, from the table of the Messages API page. */
import { ApiError } from "./errors.ts";

export interface SimModel {
  readonly id: string;
  readonly maxInputTokens: number;
  readonly maxOutputTokens: number;
  /** Tokens per token of the simulator's own tokenizer; models from 4.7 on count about 30 % more. */
  readonly tokenFactor: number;
  /** Thinking blocks are bound to everything before them. */
  readonly bindsThinking: boolean;
  /** The last message may be an assistant's (models before 4.6). */
  readonly allowsPrefill: boolean;
  /** What happens when prompt and `max_tokens` together exceed the window: a 400, or a stop when it is reached. */
  readonly overrun: "reject" | "stop";
  /** Shorter prefixes are not cached, tokens. */
  readonly cacheMinimumTokens: number;
  /** Whose errors a chat completions model answers with; undefined for a model of the Messages API. */
  readonly server?: ChatServer;
  /** The chat template refuses roles that do not alternate, with a 500. */
  readonly strictTemplate?: boolean;
  /** The agent reasons aloud before it answers. */
  readonly reasons?: boolean;
}

export type ChatServer = "openai" | "vllm" | "llama.cpp";

/** Fields of a model that a test may change. */
export type ModelOverride = Partial<Omit<SimModel, "id">>;

const DEFAULT_CACHE_MINIMUM_TOKENS = 1_024;

const model = (id: string, windowTokens: number, maxOutputTokens: number, rest: ModelOverride = {}): SimModel => ({
  id,
  maxInputTokens: windowTokens,
  maxOutputTokens,
  tokenFactor: 1,
  bindsThinking: false,
  allowsPrefill: false,
  overrun: "stop",
  cacheMinimumTokens: DEFAULT_CACHE_MINIMUM_TOKENS,
  ...rest,
});

const bound = { tokenFactor: 1.3, bindsThinking: true } as const;
const current = { tokenFactor: 1.3 } as const;
const older = { allowsPrefill: true } as const;
const oldest = { allowsPrefill: true, overrun: "reject" } as const;

const MODELS: readonly SimModel[] = [
  model("claude-fable-5-2", 1_000_000, 128_000, bound),
  model("claude-fable-5-1", 1_000_000, 128_000, bound),
  model("claude-opus-5-5", 1_000_000, 128_000, bound),
  model("claude-sonnet-5-5", 1_000_000, 128_000, bound),
  model("claude-haiku-5-5", 1_000_000, 128_000, bound),
  model("claude-opus-5", 1_000_000, 128_000, current),
  model("claude-sonnet-5", 1_000_000, 128_000, current),
  model("claude-opus-4-7", 1_000_000, 128_000, current),
  model("claude-opus-4-6", 1_000_000, 128_000),
  model("claude-sonnet-4-6", 1_000_000, 64_000),
  model("claude-opus-4-5", 200_000, 64_000, older),
  model("claude-sonnet-4-5", 200_000, 64_000, older),
  model("claude-haiku-4-5", 200_000, 64_000, older),
  model("claude-opus-4-1", 200_000, 32_000, oldest),
  model("claude-opus-4", 200_000, 32_000, oldest),
  model("claude-sonnet-4", 200_000, 64_000, oldest),
  model("sim-chat", 128_000, 16_384, { server: "openai" }),
  model("sim-reasoner", 128_000, 16_384, { server: "vllm", reasons: true }),
  // Refuses what does not alternate, as the templates of Mistral's models do.
  model("sim-strict", 32_768, 8_192, { server: "llama.cpp", strictTemplate: true }),
];

const withoutDate = (id: string): string => id.replace(/-\d{8}$/, "");

export interface Catalogue {
  /** Those of the Messages API. */
  readonly list: () => readonly SimModel[];
  /** Those of chat completions. */
  readonly listChat: () => readonly SimModel[];
  /** A model of chat completions. @throws ApiError 404 for any other */
  readonly findChat: (id: string) => SimModel;
  /** @throws ApiError 404 for an unknown model */
  readonly find: (id: string) => SimModel;
  /** Changes models, or adds one: like the model that its name without a date is of, else like `claude-sonnet-5-5`. */
  readonly override: (changes: Readonly<Record<string, ModelOverride>>) => void;
  /** Back to the models as they were when the catalogue was made. */
  readonly reset: () => void;
}

/**
 * @param changes models to change or to add from the start
 * @param cacheMinimumTokens the cache minimum of every model that `changes` does not give one
 */
export const createCatalogue = (
  changes: Readonly<Record<string, ModelOverride>> = {},
  cacheMinimumTokens: number = DEFAULT_CACHE_MINIMUM_TOKENS,
): Catalogue => {
  const models = new Map<string, SimModel>();
  const override = (overrides: Readonly<Record<string, ModelOverride>>): void => {
    for (const [id, change] of Object.entries(overrides)) {
      const known = models.get(id) ?? models.get(withoutDate(id)) ?? model(id, 1_000_000, 128_000, bound);
      models.set(id, { ...known, id, ...change });
    }
  };
  const reset = (): void => {
    models.clear();
    for (const known of MODELS) models.set(known.id, { ...known, cacheMinimumTokens });
    override(changes);
  };
  reset();
  return {
    list: () => [...models.values()].filter(({ server: chat }) => chat === undefined),
    listChat: () => [...models.values()].filter(({ server: chat }) => chat !== undefined),
    findChat: (id) => {
      const found = models.get(id);
      if (found?.server === undefined) {
        const words = `The model \`${id}\` does not exist or you do not have access to it.`;
        throw new ApiError(404, words, "invalid_request_error", { code: "model_not_found" });
      }
      return found;
    },
    find: (id) => {
      const found = models.get(id) ?? models.get(withoutDate(id));
      if (found === undefined || found.server !== undefined) throw new ApiError(404, `model: ${id}`);
      return found;
    },
    override,
    reset,
  };
};

/** The list of models as a chat completions server shows it, each kind of server with its own way to tell the window. */
export const listChatModels = (known: readonly SimModel[]): string =>
  JSON.stringify({
    object: "list",
    data: known.map(({ id, server, maxInputTokens }) => ({
      id,
      object: "model",
      created: 1_767_225_600,
      owned_by: "simulator",
      ...(server === "vllm" ? { max_model_len: maxInputTokens } : {}),
      ...(server === "llama.cpp" ? { meta: { n_ctx: maxInputTokens, n_ctx_train: 131_072 } } : {}),
    })),
  });

/** A model as `GET /v1/models/{id}` shows it. */
export const describeModel = (known: SimModel) => {
  const yes = { supported: true };
  const no = { supported: false };
  return {
    type: "model",
    id: known.id,
    display_name: known.id.replace("claude-", "Claude ").replaceAll("-", " "),
    created_at: "2026-01-01T00:00:00Z",
    deprecated_at: null,
    retires_at: null,
    lifecycle: "active",
    line: /fable|opus|sonnet|haiku/.exec(known.id)?.[0] ?? null,
    max_input_tokens: known.maxInputTokens,
    max_tokens: known.maxOutputTokens,
    capabilities: {
      batch: no,
      citations: no,
      code_execution: no,
      context_management: {
        clear_thinking_20251015: null,
        clear_tool_uses_20250919: null,
        compact_20260112: null,
        supported: false,
      },
      effort: { low: yes, medium: yes, high: yes, max: yes, xhigh: null, supported: true },
      image_input: yes,
      pdf_input: yes,
      server_tools: { code_execution: no, web_search: no, supported: false },
      structured_outputs: no,
      thinking: { supported: true, types: { adaptive: yes, between_tools: yes, disabled: yes, enabled: yes } },
    },
  };
};
