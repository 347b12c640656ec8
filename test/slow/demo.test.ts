/** `npm run demo` end to end: its own platform, database and Worker, a recorded session over HTTP. */

import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runDemo } from "../../src/local/demo/command.ts";

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly said: string;
  readonly directories: readonly string[];
}

const demo = async (
  args: readonly string[],
  options: { readonly signal?: AbortSignal; readonly onSay?: (text: string) => void } = {},
): Promise<Ended> => {
  const out: string[] = [];
  const said: string[] = [];
  const directories: string[] = [];
  const code = await runDemo({
    args,
    // What is meant for a real deployment must not matter.
    env: {
      PATH: process.env.PATH,
      ANTHROPIC_API_KEY: "sk-real",
      ANTHROPIC_BASE_URL: "http://127.0.0.1:1",
      DATABASE_URL: "postgres://hango@127.0.0.1:1/hango",
    },
    out: (text) => void out.push(text),
    say: (text) => {
      said.push(text);
      options.onSay?.(text);
    },
    isTty: false,
    signal: options.signal ?? new AbortController().signal,
    now: () => performance.now(),
    onTemporaryDirectory: (path) => directories.push(path),
  });
  return { code, out: out.join(""), said: said.join(""), directories };
};

describe("npm run demo", () => {
  it("replays the recorded session, finds the log equal to it, and leaves nothing behind", {
    timeout: 120_000,
  }, async () => {
    const { code, out, said, directories } = await demo(["--json"]);
    expect({ code, said }).toEqual({ code: 0, said: expect.stringContaining("The log equals the recording") });
    const { overhead_ms, overhead_without_tools_ms, overhead_per_call_ms, ...figures } = JSON.parse(out);
    expect(figures).toEqual({
      turns: 6,
      messages: 52,
      provider_calls: 26,
      tool_calls: 93,
      input_tokens: expect.any(Number),
      output_tokens: expect.any(Number),
      cache_read_tokens: expect.any(Number),
      cache_write_tokens: expect.any(Number),
      cache_share: expect.any(Number),
      // Two for a turn, two for each step with tools.
      db_round_trips: 6 * 2 + 20 * 2,
      db_round_trips_per_turn: 8.7,
      differences: 0,
    });
    expect(figures.cache_share).toBeGreaterThan(0.9);
    for (const { p50, p95 } of [overhead_ms, overhead_without_tools_ms, overhead_per_call_ms]) {
      expect(p50).toBeGreaterThan(0);
      expect(p95).toBeGreaterThanOrEqual(p50);
    }
    expect(said.match(/^turn \d\/6 .* calls? .* tokens in, .* out$/gm)).toHaveLength(6);
    expect(directories.map((path) => existsSync(path))).toEqual([false]);
  });

  it("ends with 130 when aborted in the midst of it, and leaves nothing behind", { timeout: 120_000 }, async () => {
    const stopping = new AbortController();
    const { code, out, directories } = await demo([], {
      signal: stopping.signal,
      onSay: (text) => {
        if (text.startsWith("turn 2/")) stopping.abort();
      },
    });
    expect({ code, out }).toEqual({ code: 130, out: "" });
    expect(directories.map((path) => existsSync(path))).toEqual([false]);
  });
});

describe("npm run demo with something else", () => {
  it("says what is wrong with a recording before anything is started", async () => {
    const directory = await mkdtemp(join(tmpdir(), "hango-test-"));
    const path = join(directory, "odd.jsonl");
    await writeFile(path, '{"type":"meta","id":"odd"}\n{"role":"assistant","content":"Hi"}\n');
    const odd = await demo([path]);
    const missing = await demo([join(directory, "missing.jsonl")]);
    await rm(directory, { recursive: true });
    expect(odd).toEqual({
      code: 1,
      out: "",
      said: `${path} cannot be replayed: message 1 is not a user's\n`,
      directories: [],
    });
    expect(missing.code).toBe(1);
    expect(missing.said).toContain("missing.jsonl cannot be replayed: it cannot be read: ENOENT");
  });

  it.each([[["--fast"]], [["a.jsonl", "b.jsonl"]]])("explains itself for wrong arguments: %j", async (args) => {
    const { code, said } = await demo(args);
    expect({ code, said }).toEqual({ code: 2, said: expect.stringContaining("Usage: npm run demo") });
  });
});
