/** What `npm start` says once it is up: where everything is, and a first thing to try. */
import { firstTurn } from "./first-turn.ts";
import type { Platform } from "./platform.ts";

export type Welcomed = Pick<Platform, "url" | "apiKey" | "tracesUrl"> & {
  readonly simulator: { readonly url: string } | undefined;
};

/** For a person. */
export const welcome = ({ url, apiKey, tracesUrl, simulator }: Welcomed): string => `
hango is running at ${url}
API key             ${apiKey}
API documentation   ${url}/docs
Traces and metrics  ${tracesUrl ?? "go to OTEL_EXPORTER_OTLP_ENDPOINT"}
Models              ${
  simulator === undefined
    ? "the Messages API that you configured"
    : `a simulator (set ANTHROPIC_API_KEY to use the real ones)
What they were sent ${simulator.url}/_sim/requests`
}

A first turn, streamed:

${firstTurn(url, apiKey)}

Ctrl-C stops it.`;

/** For a script: one line of JSON. */
export const welcomeJson = ({ url, apiKey, tracesUrl }: Welcomed): string =>
  JSON.stringify({ url, api_key: apiKey, traces_url: tracesUrl ?? null });
