/** Providers, wired to what a request, queue message or tick works with. */

import type { Provider, ResolveMedia } from "../models/provider.ts";
import { providerFor } from "../models/providers.ts";
import type { Deps } from "./deps.ts";

export interface ProviderOptions {
  readonly resolveMedia: ResolveMedia;
  readonly maxRetries?: number;
  /** The session's own word on its model's template (R8); undefined for the configuration's. */
  readonly strictAlternation?: boolean | undefined;
}

/** The provider of a model, as the configuration has it. */
export const modelProvider = (
  deps: Pick<Deps, "config" | "fetch" | "now" | "newId">,
  model: string,
  options: ProviderOptions,
): Provider =>
  providerFor(model, deps.config, {
    fetch: deps.fetch,
    timers: {
      nowMs: deps.now,
      after: (delayMs, run) => {
        const id = setTimeout(run, delayMs);
        return () => clearTimeout(id);
      },
    },
    newCallId: () => deps.newId("call"),
    ...options,
  });
