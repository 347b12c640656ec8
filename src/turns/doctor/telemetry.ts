/** Whether the collector takes what hango would send it. */
import type { Config } from "../../config.ts";
import { ask, statusInWords } from "./asking.ts";
import { type Check, CheckFailed, CheckSkipped, hostOf } from "./check.ts";

export interface TelemetryCheck {
  readonly settings: Config["telemetry"];
  readonly fetch: typeof fetch;
}

/** An export may take as long; a collector that is slower holds up every invocation. */
const TIMEOUT_MS = 3_000;

/** Exports of nothing, by the path that each goes to. */
const EXPORTS = { "/v1/traces": { resourceSpans: [] }, "/v1/metrics": { resourceMetrics: [] } } as const;

const advice = (status: number): string => {
  if (status === 401 || status === 403) return "see OTEL_EXPORTER_OTLP_HEADERS";
  if (status === 404 || status === 405)
    return "OTEL_EXPORTER_OTLP_ENDPOINT has to be the base address, to which /v1/traces and /v1/metrics are added";
  return "see the collector";
};

/** Sends an empty export of spans and one of metrics, with the headers that are configured. */
export const telemetryCheck = ({ settings, fetch }: TelemetryCheck): Check => ({
  name: "telemetry",
  timeoutMs: TIMEOUT_MS,
  look: async (signal) => {
    const { endpoint } = settings;
    if (endpoint === undefined) throw new CheckSkipped("no OTEL_EXPORTER_OTLP_ENDPOINT is set");
    await Promise.all(
      Object.entries(EXPORTS).map(async ([path, body]) => {
        const answer = await ask(fetch, `${endpoint.replace(/\/+$/, "")}${path}`, {
          method: "POST",
          headers: { ...settings.headers, "content-type": "application/json" },
          body: JSON.stringify(body),
          signal,
        });
        if (answer.status < 200 || answer.status > 299)
          throw new CheckFailed(
            `${hostOf(endpoint)} answered ${statusInWords(answer)} to ${path}: ${advice(answer.status)}`,
          );
      }),
    );
    return `${hostOf(endpoint)} takes spans and metrics`;
  },
});
