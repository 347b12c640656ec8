/**
 * docs/quickstart.md, followed word by word in an empty directory with nothing but npm: its blocks are typed as they are printed, in two
 * terminals. One line is the reader's own: where the clone comes from.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { shellBlocks } from "../support/pages.ts";

const ROOT = join(import.meta.dirname, "../..");
const CLONE = "git clone https://git.example.com/hango.git";
const ADDRESS = "127.0.0.1:8787";

let directory: string;
let first: ChildProcess | undefined;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "hango-quickstart-"));
});
afterAll(async () => {
  if (first?.pid !== undefined && first.exitCode === null && first.signalCode === null)
    process.kill(-first.pid, "SIGKILL");
  await rm(directory, { recursive: true, force: true });
});

/** Nothing of the project is on the path: what the page says is enough. */
const env = (): NodeJS.ProcessEnv => {
  const { npm_execpath: _npm, npm_lifecycle_event: _event, ...rest } = process.env;
  const path = (rest.PATH ?? "").split(":").filter((part) => !part.startsWith(ROOT));
  return { HOME: rest.HOME, PATH: path.join(":") };
};

/** A terminal: types something, and waits until it has ended. */
const typed = async (command: string, cwd: string): Promise<string> => {
  const shell = spawn("bash", ["-euo", "pipefail", "-c", command], {
    cwd,
    env: env(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  shell.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  shell.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = await once(shell, "close");
  expect([code, code === 0 ? "" : `${command}\n${output}\n${errors}`]).toEqual([0, ""]);
  return output;
};

const isTaken = (address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const [host = "", port] = address.split(":");
    const socket = connect(Number(port), host);
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("close", () => socket.destroy());
  });

/** The first terminal, in which `npm start` stays. */
const started = async (command: string, cwd: string): Promise<string> => {
  const child = spawn("bash", ["-c", command], { cwd, env: env(), detached: true, stdio: ["ignore", "pipe", "pipe"] });
  first = child;
  let output = "";
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      if (output.includes("Ctrl-C stops it.")) resolve(output);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => reject(new Error(`npm start ended with ${code}\n${output}`)));
  });
};

it("leads from an empty directory to a compacted session, and ends with Ctrl-C", async () => {
  expect(await isTaken(ADDRESS), `${ADDRESS} has to be free, as on a reader's machine`).toBe(false);
  const [clone = "", start = "", key = "", ...rest] = await shellBlocks("docs/quickstart.md");
  expect([clone.startsWith(`${CLONE}\n`), start]).toEqual([true, "npm start\n"]);
  expect(await readdir(directory)).toEqual([]);
  await typed(clone.replace(CLONE, `git clone -q "${ROOT}" hango`), directory);
  const hango = join(directory, "hango");
  const greeting = await started(start, hango);
  expect(greeting).toContain(`hango is running at http://${ADDRESS}`);

  expect(rest).toHaveLength(8);
  const [turn = "", file = "", second = "", log = "", session = "", reports = "", context = "", oldest = ""] = rest;
  const said = async (block: string): Promise<string> => {
    const output = await typed(`${key}\n${block}`, hango);
    expect(output).not.toContain('"type":"error"');
    return output;
  };
  const stream = await said(turn);
  expect(stream).toContain("event: tool.completed");
  expect(stream.trimEnd()).toMatch(
    /event: run\.completed\ndata: \{.*\}\n\n?(id: \d+\n)?event: session\.idle\ndata: .*$|event: run\.completed\ndata: .*$/s,
  );
  expect(await said(file)).toBe("hango was here");
  expect(JSON.parse(await said(second))).toMatchObject({
    status: "completed",
    output_text: expect.stringContaining("hango was here"),
  });
  expect(JSON.parse(await said(log)).data.map(({ role }: { role: string }) => role)).toEqual([
    ...["user", "assistant", "user", "assistant"],
    ...["user", "assistant", "user", "assistant"],
  ]);
  expect(JSON.parse(await said(session))).toMatchObject({ key: "long", context: { max_input_tokens: 16_000 } });
  expect((await said(reports)).match(/"status":"completed"/g)).toHaveLength(8);
  const looked = await said(context);
  expect(looked).toMatch(/"generation":1,/);
  expect(looked).toContain('"reason":"threshold"');
  expect(await said(oldest)).toContain("Report 1.");
  const traces = await typed(`curl -s http://${ADDRESS}/_local/traces`, hango);
  expect(traces).toContain("compacted");

  // What Ctrl-C does: SIGINT to everything in the terminal.
  const gone = once(first as ChildProcess, "exit");
  process.kill(-Number(first?.pid), "SIGINT");
  await gone;
  expect(await isTaken(ADDRESS)).toBe(false);
  expect(JSON.parse(await readFile(join(hango, ".hango/credentials.json"), "utf8"))).toMatchObject({
    apiKey: expect.stringMatching(/^hango_/),
  });
}, 600_000);
