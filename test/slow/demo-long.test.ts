/** `npm run demo -- --long` and `npm run replay` end to end: their own platform, recorded sessions over HTTP in windows that they outgrow. */
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_RECORDING, runDemo } from "../../src/local/demo/command.ts";
import { runReplay } from "../../src/local/replay/command.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "hango-test-"));
});
afterAll(() => rm(directory, { recursive: true }));

const run = async (command: typeof runReplay | typeof runDemo, args: readonly string[]) => {
  const out: string[] = [];
  const said: string[] = [];
  const directories: string[] = [];
  const code = await command({
    args,
    // What is meant for a real deployment must not matter.
    env: { PATH: process.env.PATH, ANTHROPIC_API_KEY: "sk-real", DATABASE_URL: "postgres://hango@127.0.0.1:1/hango" },
    out: (text) => void out.push(text),
    say: (text) => void said.push(text),
    isTty: false,
    signal: new AbortController().signal,
    now: () => performance.now(),
    onTemporaryDirectory: (path) => directories.push(path),
  });
  return { code, out: out.join(""), said: said.join(""), left: directories.filter((path) => existsSync(path)) };
};

describe("npm run demo -- --long", () => {
  it("drives a session past its trigger several times, shows its size turn by turn, and leaves the log as recorded", {
    timeout: 240_000,
  }, async () => {
    const svg = join(directory, "chart.svg");
    const { code, out, said, left } = await run(runDemo, ["--long", "--svg", svg, DEFAULT_RECORDING]);
    expect({ code, left }, said).toEqual({ code: 0, left: [] });
    expect(said).toContain("The log equals the recording");
    expect(said.match(/^turn +\d+ +\d+ calls? +[\d,]+ tokens/gm)).toHaveLength(12);
    const compactions = Number(/^compactions +(\d+)$/m.exec(out)?.[1]);
    expect(compactions).toBeGreaterThanOrEqual(3);
    expect(out).toMatch(/^requests refused +0\nruns failed +0$/m);
    expect(out).toContain("▼");
    expect((await readFile(svg, "utf8")).match(/<circle/g)).toHaveLength(compactions);
  });

  it("takes its options with --long only", async () => {
    for (const args of [
      ["--svg", "a.svg"],
      ["--window", "9000"],
      ["--long", "--window", "few"],
    ]) {
      const { code, said } = await run(runDemo, args);
      expect({ code, said }).toEqual({ code: 2, said: expect.stringContaining("Usage: npm run demo") });
    }
  });
});

describe("npm run replay", () => {
  it("replays the sessions of a folder, compacts each at least three times, and gives the figures", {
    timeout: 240_000,
  }, async () => {
    await copyFile(DEFAULT_RECORDING, join(directory, "one.jsonl"));
    const { code, out, said, left } = await run(runReplay, ["--json", directory]);
    expect({ code, left }, said).toEqual({ code: 0, left: [] });
    const { sessions, totals } = JSON.parse(out);
    expect(sessions).toEqual([
      expect.objectContaining({
        session: "one",
        messages: 104,
        turns: 12,
        rejected_requests: 0,
        failed_runs: 0,
        problems: [],
        notes: ["replayed 2 times in a row, since it is small"],
      }),
    ]);
    expect(totals.compactions).toBeGreaterThanOrEqual(3);
    expect(totals.prefix_breaks).toBeLessThanOrEqual(totals.revisions);
  });

  it("says what is wrong before anything is started", async () => {
    const empty = await mkdtemp(join(directory, "empty-"));
    expect(await run(runReplay, [empty])).toEqual({
      code: 1,
      out: "",
      said: "there is no recording to replay\n",
      left: [],
    });
    expect(await run(runReplay, ["--jobs", "none"])).toMatchObject({ code: 2 });
  });
});
