/** `npm run micro-report`: what micro-compaction has brought the sessions of a running hango. */
import { runMicroReport } from "./micro-report/command.ts";

process.exit(
  await runMicroReport({
    args: process.argv.slice(2),
    env: process.env,
    out: (text) => void process.stdout.write(text),
    say: (text) => void process.stderr.write(text),
    fetch,
  }),
);
