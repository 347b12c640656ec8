/** In a process of its own: a signal is about the whole process. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";

const MODULE = join(import.meta.dirname, "../../../src/local/stop-signals.ts");

/** Stops when it is told to on its standard input; its clock stands at what was last written there. */
const PROGRAM = `
  import { onStopSignal } from ${JSON.stringify(MODULE)};
  let nowMs = 0;
  process.stdin.on("data", (data) => {
    const word = String(data).trim();
    if (word === "close") { console.log("closed"); process.exit(7); }
    nowMs = Number(word);
    console.log("at " + word);
  });
  onStopSignal({ stop: () => console.log("stopping"), now: () => nowMs });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(99));
  process.on("SIGUSR2", () => console.log("other"));
  setImmediate(() => console.log("ready"));
`;

let child: ChildProcess | undefined;
afterEach(() => void child?.kill("SIGKILL"));

const start = async () => {
  const started = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  child = started;
  let output = "";
  started.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  const exited = once(started, "exit");
  const says = (line: string) => expect.poll(() => output, { timeout: 10_000, interval: 20 }).toContain(`${line}\n`);
  await says("ready");
  return { child: started, says, output: () => output, exited };
};

describe("a signal to stop", () => {
  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "lets the process close in good order, whatever listener comes later: %s",
    async (signal) => {
      const { child, says, exited } = await start();
      child.kill(signal);
      await says("stopping");
      child.stdin.write("close\n");
      expect(await exited).toEqual([7, null]);
    },
  );

  it("counts as the same when it comes again within a second, from npm or the bootstrap", async () => {
    const { child, says, output, exited } = await start();
    child.kill("SIGINT");
    await says("stopping");
    child.stdin.write("1000\n");
    await says("at 1000");
    child.kill("SIGINT");
    child.kill("SIGUSR2");
    await says("other");
    child.stdin.write("close\n");
    expect(await exited).toEqual([7, null]);
    expect(output().split("stopping")).toHaveLength(2);
  });

  it("ends the process at once when it comes again later", async () => {
    const { child, says, exited } = await start();
    child.kill("SIGINT");
    await says("stopping");
    child.stdin.write("1001\n");
    await says("at 1001");
    child.kill("SIGTERM");
    expect(await exited).toEqual([130, null]);
  });
});
