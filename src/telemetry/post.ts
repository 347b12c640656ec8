/** One export to a collector by OTLP over HTTP, as JSON. */

export interface Collector {
  /** Its base address; spans go to `/v1/traces` below it, metrics to `/v1/metrics`. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  /** After which nobody waits for it, in ms: a collector that hangs must not hold the isolate. */
  readonly timeoutMs: number;
}

/**
 * Sends it, once. A redirection counts as a refusal: what is sent, and the key that opens the collector, go to the address that was configured or
 * nowhere.
 * @param signal the part of the address after `/v1/`
 * @param body JSON, as OpenTelemetry's serializers make it
 * @throws Error when it was not taken
 */
export const post = async (
  { endpoint, headers, timeoutMs }: Collector,
  signal: "traces" | "metrics",
  body: Uint8Array | undefined,
): Promise<void> => {
  const response = await fetch(`${endpoint.replace(/\/+$/, "")}/v1/${signal}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: new TextDecoder().decode(body),
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  });
  // Nothing in it matters, and one that never ends would hold the connection. That it broke off says nothing of what was taken.
  await response.body?.cancel().catch(() => undefined);
  if (!response.ok) throw new Error(`${signal}: the collector answered ${response.status}`);
};
