/** `npm start`: brings up the platform and says how to use it. With `--json`, one line of JSON on standard output for scripts. */
import { createServer } from "node:net";
import { Cron } from "croner";
import { ConfigError } from "../config.ts";
import { DirectoryInUseError } from "./directory-lock.ts";
import { MigrationError } from "./migrate.ts";
import { startPlatform } from "./platform.ts";
import { parseSettings } from "./settings.ts";
import { onStopSignal } from "./stop-signals.ts";
import { welcome, welcomeJson } from "./welcome.ts";

const PARENT_POLL_MS = 500;

const json = process.argv.slice(2).includes("--json");
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : "unknown");
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Found out before the slow part begins. */
const portIsFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });

/** Under npm, whoever is asked to stop is not this process: it ends when what started it is gone, in whatever way. */
const watchParent = (stop: () => void): void => {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    stop();
  }, PARENT_POLL_MS);
  watch.unref();
};

/** The message of an error that the person at the terminal can act on; undefined for a fault of ours. */
const knownProblem = (error: unknown): string | undefined =>
  error instanceof ConfigError || error instanceof DirectoryInUseError || error instanceof MigrationError
    ? error.message
    : undefined;

const main = async (): Promise<void> => {
  const settings = parseSettings(process.env);
  if (settings.port !== 0 && !(await portIsFree(settings.port))) {
    say(`Port ${settings.port} is in use. Set PORT to another one, or to 0 for any free one: PORT=8788 npm start`);
    process.exitCode = 1;
    return;
  }
  const asked = Promise.withResolvers<void>();
  onStopSignal({ stop: asked.resolve, now: () => performance.now() });
  if (process.env.npm_lifecycle_event !== undefined) watchParent(asked.resolve);

  const running = await startPlatform({
    ...settings,
    env: process.env,
    showsTelemetry: true,
    onLog: say,
    onProgress: (what) => say(`hango: ${what} ...`),
  });
  const ticking = running.crons.map(
    (cron) =>
      // A tick that takes longer than a minute is not overtaken by the next.
      new Cron(cron, { timezone: "UTC", protect: true }, () =>
        running.tick(cron).catch((error: unknown) => say(`hango: the sweeper failed: ${messageOf(error)}`)),
      ),
  );
  process.stdout.write(`${json ? welcomeJson(running) : welcome(running)}\n`);
  // Asked during the start, it ends what is up by now: nothing is left half begun.
  await asked.promise;
  for (const each of ticking) each.stop();
  await running.close();
  process.exit(0);
};

main().catch((error: unknown) => {
  say(knownProblem(error) ?? (error instanceof Error ? (error.stack ?? error.message) : String(error)));
  process.exit(1);
});
