/** The platform of `npm start` for the tests of pages, and a turn in it whose context is compacted. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { type Platform, startPlatform } from "../../src/local/platform.ts";
import { MODEL, talk } from "../support/compaction.ts";

/** What the Worker answers where there is nothing. */
export const NO_SUCH_PATH = "There is no such path; /docs lists those that exist.";

export interface BrowsedPlatform {
  readonly platform: Platform;
  close(): Promise<void>;
}

export const startBrowsedPlatform = async (env: Readonly<Record<string, string>> = {}): Promise<BrowsedPlatform> => {
  const dataDir = await mkdtemp(join(tmpdir(), "hango-browser-"));
  const remove = (): Promise<void> => rm(dataDir, { recursive: true, force: true });
  try {
    const options = {
      port: 0,
      dataDir,
      env,
      showsTelemetry: true,
      onLog: () => undefined,
      onProgress: () => undefined,
    };
    const platform = await startPlatform(options);
    const close = async (): Promise<void> => {
      await platform.close();
      await remove();
    };
    return { platform, close };
  } catch (error) {
    await remove();
    throw error;
  }
};

const WINDOW_TOKENS = 20_000;

const post = async (
  { url, apiKey }: Platform,
  path: string,
  body: object,
): Promise<Readonly<Record<string, unknown>>> => {
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
  const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer: Readonly<Record<string, unknown>> = await response.json();
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${JSON.stringify(answer)}`);
  return answer;
};

/** A session that nearly fills its window, and a turn that writes a file. @returns the session's id */
export const compactedTurn = async (platform: Platform): Promise<string> => {
  platform.simulator?.setModels({ [MODEL]: { maxInputTokens: WINDOW_TOKENS } });
  const session = await post(platform, "/v1/sessions", {
    model: MODEL,
    max_tokens: 1_000,
    context: { max_input_tokens: WINDOW_TOKENS },
  });
  const path = `/v1/sessions/${session.id}`;
  await post(platform, `${path}/import`, { messages: talk(30, 230) });
  const turn = await post(platform, `${path}/turns`, { input: "write /notes.md: hango was here" });
  expect(turn.status).toBe("completed");
  return String(session.id);
};
