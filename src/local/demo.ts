/** `npm run demo`: replays a recorded session through hango and says what it cost. */
import { rmSync } from "node:fs";
import { runDemo } from "./demo/command.ts";
import { onStopSignal } from "./stop-signals.ts";

const stopping = new AbortController();
const now = (): number => performance.now();
onStopSignal({
  stop: () => {
    process.stderr.write("\nhango: stopping ...\n");
    stopping.abort();
  },
  now,
});

const code = await runDemo({
  args: process.argv.slice(2),
  env: process.env,
  out: (text) => void process.stdout.write(text),
  say: (text) => void process.stderr.write(text),
  isTty: process.stderr.isTTY === true,
  signal: stopping.signal,
  now,
  onTemporaryDirectory: (path) => process.once("exit", () => rmSync(path, { recursive: true, force: true })),
});
process.exit(code);
