/** Whether the collector takes what is sent to it: an empty export of each kind, with the configured headers. */
import type { Config } from "../../config.ts";
import { below, type Check, type Finding, failed, hasCredentials, ok, shown, skipped, unreachable } from "./check.ts";

/** What is exported, by path below the collector's address: a request with nothing in it. */
const EMPTY: Readonly<Record<string, string>> = {
  "/v1/traces": '{"resourceSpans":[]}',
  "/v1/metrics": '{"resourceMetrics":[]}',
};

const judge = (status: number, path: string, at: string): Finding | undefined => {
  if (status >= 200 && status < 300) return undefined;
  if (status === 401 || status === 403)
    return failed(`${at} refused the headers (${status}): set OTEL_EXPORTER_OTLP_HEADERS`);
  if (status === 404)
    return failed(
      `${at} has no ${path} (404): OTEL_EXPORTER_OTLP_ENDPOINT is the base address of a collector that takes OTLP over HTTP`,
    );
  return failed(`${at} answered ${status} to an empty export at ${path}`);
};

/** Without a collector there is nothing to check: nothing is sent. */
export const otlpCheck = (
  { endpoint, headers }: Pick<Config["telemetry"], "endpoint" | "headers">,
  fetcher: typeof fetch,
): Check => ({
  name: "otlp",
  run: async (signal) => {
    if (endpoint === undefined) return skipped("OTEL_EXPORTER_OTLP_ENDPOINT is not set: no spans and metrics are sent");
    if (hasCredentials(endpoint))
      return failed("OTEL_EXPORTER_OTLP_ENDPOINT holds a user or password: use OTEL_EXPORTER_OTLP_HEADERS");
    const at = `the collector at ${shown(endpoint)}`;
    const send = async ([path, body]: readonly [string, string]): Promise<Finding | undefined> => {
      const response = await fetcher(below(endpoint, path), {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body,
        signal,
        redirect: "manual",
      });
      await response.body?.cancel();
      return judge(response.status, path, at);
    };
    try {
      const findings = await Promise.all(Object.entries(EMPTY).map(send));
      return findings.find((finding) => finding !== undefined) ?? ok(`${at} takes spans and metrics`);
    } catch (error) {
      if (signal.aborted) throw error;
      return failed(`${at} ${unreachable(error)}: see OTEL_EXPORTER_OTLP_ENDPOINT`);
    }
  },
});
