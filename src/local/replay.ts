/** `npm run replay`: replays recorded sessions in small windows and says how they came through. */
import { rmSync } from "node:fs";
import { runReplay } from "./replay/command.ts";
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

const code = await runReplay({
  args: process.argv.slice(2),
  env: process.env,
  out: (text) => void process.stdout.write(text),
  say: (text) => void process.stderr.write(text),
  signal: stopping.signal,
  now,
  onTemporaryDirectory: (path) => process.once("exit", () => rmSync(path, { recursive: true, force: true })),
});
process.exit(code);
