/** A platform of its own for a replay, with a key for each session: they run side by side, and a key has its limit of requests. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient } from "../demo/client.ts";
import { type Platform, startPlatform } from "../platform.ts";
import { randomSecret } from "../secret.ts";
import { parseSettings } from "../settings.ts";
import type { Simulator } from "../simulator/server.ts";

/** Set for a real deployment perhaps: the recorded answers are the simulator's, and no other database is written to. */
export const NOT_USED = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "DATABASE_URL", "HANGO_DATA_DIR", "PORT"];

export interface ReplayPlatformOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLog: (line: string) => void;
  readonly onProgress: (what: string) => void;
  readonly signal: AbortSignal;
  readonly onTemporaryDirectory?: ((path: string) => void) | undefined;
}

export interface ReplayPlatform {
  readonly simulator: Simulator;
  /** A client with a key and a tenant of its own. */
  readonly newClient: (name: string) => Promise<Client>;
  readonly close: () => Promise<void>;
}

const post = async (url: string, key: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${new URL(url).pathname} answered ${response.status}: ${await response.text()}`);
  return response.json() as Promise<Readonly<Record<string, unknown>>>;
};

const clientsOf = (platform: Platform, adminKey: string, signal: AbortSignal) => async (name: string) => {
  const tenant = await post(`${platform.url}/v1/tenants`, adminKey, { name });
  const key = await post(`${platform.url}/v1/keys`, adminKey, { tenant_id: tenant.id, name });
  return createClient({ url: platform.url, apiKey: String(key.secret), signal });
};

/** Starts the platform on a free port, with data that are removed when it is closed. */
export const startReplayPlatform = async (options: ReplayPlatformOptions): Promise<ReplayPlatform> => {
  const dataDir = await mkdtemp(join(tmpdir(), "hango-replay-"));
  options.onTemporaryDirectory?.(dataDir);
  const remove = (): Promise<void> => rm(dataDir, { recursive: true, force: true });
  const adminKey = randomSecret(32);
  const env = {
    ...options.env,
    ...Object.fromEntries(NOT_USED.map((name) => [name, undefined])),
    PORT: "0",
    HANGO_DATA_DIR: dataDir,
    HANGO_ADMIN_KEY: adminKey,
    HANGO_ALLOW_PRIVATE_URLS: "true",
  };
  try {
    const { onLog, onProgress } = options;
    const platform = await startPlatform({ ...parseSettings(env), env, onLog, onProgress });
    const close = async (): Promise<void> => {
      await platform.close();
      await remove();
    };
    const { simulator } = platform;
    if (simulator !== undefined) return { simulator, newClient: clientsOf(platform, adminKey, options.signal), close };
    await close();
    throw new Error("the replay needs the simulator");
  } catch (error) {
    await remove();
    throw error;
  }
};
