/** Asking the provider what its models take (E7), in the clock's time: no turn ever waits for it. */
import { isServed } from "../protocol/model-name.ts";
import { staleModels, storeProfiles } from "../store/model-profiles.ts";
import type { Deps } from "./deps.ts";
import { modelProvider } from "./model-provider.ts";

/** Models that one tick asks about; the next tick takes the rest. */
const MODELS_PER_TICK = 20;

/** Longest time that a tick spends asking, in ms: well within the minute between two of them. */
const ASKING_MS = 30_000;

/**
 * Asks about models that were used lately and whose profile is missing or old. A provider that does not answer leaves it for the next tick.
 * @throws StoreUnavailable
 */
export const refreshProfiles = async (deps: Deps): Promise<void> => {
  const models = await staleModels(deps.db, MODELS_PER_TICK);
  if (models.length === 0) return;
  const deadlineMs = deps.now() + ASKING_MS;
  const signal = AbortSignal.timeout(ASKING_MS);
  for (const model of models) {
    try {
      const provider = modelProvider(deps, model, { resolveMedia: async (content) => content, maxRetries: 0 });
      // Nobody is there to ask about a model whose provider was taken out of the configuration.
      const info = isServed(model, deps.config) ? await provider.modelInfo(model, { signal, deadlineMs }) : undefined;
      const { maxInputTokens = null, maxOutputTokens = null } = info ?? {};
      await storeProfiles(deps.db, [{ model, maxInputTokens, maxOutputTokens }]);
    } catch (error) {
      deps.log.warn("the provider did not describe a model", {
        model,
        error: error instanceof Error ? error.name : typeof error,
      });
    }
  }
};
