/** `npm run demo`: replays a recorded session through hango and says what it cost. */
import { rmSync } from "node:fs";
import { runDemo } from "./demo/command.ts";

/** One Ctrl-C reaches this process more than once: from the terminal, and passed on by npm and the bootstrap. */
const SAME_KEYPRESS_MS = 1_000;

const stopping = new AbortController();
let stoppedMs = 0;
const stop = (): void => {
  const nowMs = performance.now();
  if (!stopping.signal.aborted) {
    stoppedMs = nowMs;
    process.stderr.write("\nhango: stopping ...\n");
    stopping.abort();
    return;
  }
  // A second Ctrl-C is from someone who does not want to wait.
  if (nowMs - stoppedMs > SAME_KEYPRESS_MS) process.exit(130);
};
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);

const code = await runDemo({
  args: process.argv.slice(2),
  env: process.env,
  out: (text) => void process.stdout.write(text),
  say: (text) => void process.stderr.write(text),
  isTty: process.stderr.isTTY === true,
  signal: stopping.signal,
  now: () => performance.now(),
  onTemporaryDirectory: (path) => process.once("exit", () => rmSync(path, { recursive: true, force: true })),
});
process.exit(code);
