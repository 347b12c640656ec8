/** A deployment: the database first, then the Worker; stopped at the first thing that fails, with what state it leaves and what to do. */
import { isPoolerHost, parseConnectionString } from "../connection-string.ts";
import { type Migration, type MigrationPlan, migrateUrl, planUrl, reasonOf } from "../migrate.ts";
import { breakingClauses } from "./breaking.ts";

export interface DeployOptions {
  readonly dryRun: boolean;
  /** Goes on without asking. */
  readonly yes: boolean;
  /** For `wrangler deploy`. */
  readonly wranglerArgs: readonly string[];
}

export interface DeployPorts {
  /** `DATABASE_URL` of the shell: the direct host of the database that the deployed Worker uses. */
  readonly databaseUrl: string | undefined;
  readonly readMigrations: () => Promise<readonly Migration[]>;
  /** Builds the Worker and says which limits it breaks. Rejects when it does not build. */
  readonly build: () => Promise<readonly string[]>;
  /** Runs wrangler with these arguments, its output on ours; resolves with its exit code. */
  readonly wrangler: (args: readonly string[]) => Promise<number>;
  /** Asks whoever is at the terminal; undefined where nobody is. */
  readonly confirm: (question: string) => Promise<boolean | undefined>;
  /** Takes a line for whoever deploys. */
  readonly say: (line: string) => void;
}

/** Why there is nothing to migrate with, or undefined. */
const urlProblem = (databaseUrl: string | undefined): string | undefined => {
  if (databaseUrl === undefined || databaseUrl === "")
    return "DATABASE_URL is not set. Give the direct (not the -pooler) connection string of the database that the Worker uses.";
  try {
    if (!isPoolerHost(parseConnectionString(databaseUrl).hostname)) return undefined;
    return "DATABASE_URL names a -pooler host, which is for the Worker's secret. Migrations need the direct host: the same without -pooler.";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};

/** Host and database, without user, password and options. */
const databaseOf = (databaseUrl: string): string => {
  const url = parseConnectionString(databaseUrl);
  return `${url.host}${url.pathname}`;
};

const planLines = ({ pending, present, unknown }: MigrationPlan): readonly string[] => [
  pending.length === 0
    ? `migrations  none pending, ${present} applied`
    : `migrations  ${pending.length} pending, ${present} applied`,
  ...pending.map(({ tag }) => `            ${tag}`),
  ...(unknown === 0 ? [] : [`            ${unknown} in the database that this checkout does not know`]),
];

/** What must be known and agreed to before anything is changed; empty where nothing is. */
const warnings = (plan: MigrationPlan): readonly string[] => {
  // A database without any has no Worker on it yet.
  const breaking = plan.present === 0 ? [] : breakingClauses(plan.pending);
  return [
    ...(breaking.length === 0
      ? []
      : [
          "These drop, rename or narrow what the Worker that runs now may use. From their commit until the new Worker is deployed, its requests may fail:",
          ...breaking.map(({ tag, clause }) => `  ${tag}: ${clause}`),
        ]),
    ...(plan.unknown === 0
      ? []
      : [
          `The database was migrated by a newer version (${plan.unknown} more): this one may not work with it, and migrations do not go back.`,
        ]),
  ];
};

/** Whether to go on in spite of the warnings. */
const agreed = async (plan: MigrationPlan, { yes }: DeployOptions, { say, confirm }: DeployPorts): Promise<boolean> => {
  const lines = warnings(plan);
  for (const line of lines) say(line);
  if (lines.length === 0 || yes) return true;
  const answer = await confirm("Go on? (yes/no) ");
  if (answer === true) return true;
  say(
    answer === undefined
      ? "Nobody is there to be asked. Nothing was changed. Run it again with --yes to go on."
      : "Nothing was changed.",
  );
  return false;
};

/** What a failed migration has left, as far as the database still tells. */
const afterFailure = async (url: string, migrations: readonly Migration[], before: MigrationPlan): Promise<string> => {
  const now = await planUrl(url, migrations).catch(() => undefined);
  if (now === undefined)
    return "How far it came is not known: npm run deploy -- --dry-run shows it once the database answers.";
  const left = new Set(now.pending.map(({ tag }) => tag));
  const applied = before.pending.map(({ tag }) => tag).filter((tag) => !left.has(tag));
  return applied.length === 0 ? "No migration was applied." : `Applied before it, and kept: ${applied.join(", ")}.`;
};

/** Applies what is pending; false when it failed. */
const migrated = async (
  url: string,
  migrations: readonly Migration[],
  plan: MigrationPlan,
  { say }: DeployPorts,
): Promise<boolean> => {
  try {
    for (const tag of (await migrateUrl(url, migrations)).applied) say(`applied     ${tag}`);
    return true;
  } catch (error) {
    say(`Migration failed: ${reasonOf(error, url)}`);
    say(await afterFailure(url, migrations, plan));
    say(
      "The Worker was not deployed: the one from before still runs. Put right what failed, then run npm run deploy again.",
    );
    return false;
  }
};

/**
 * Builds, migrates and deploys.
 * @returns the exit code: 0, 1, or that of wrangler where it is wrangler that failed
 */
export const deploy = async (options: DeployOptions, ports: DeployPorts): Promise<number> => {
  const { databaseUrl = "", say } = ports;
  const stop = (...lines: readonly string[]): 1 => {
    for (const line of lines) say(line);
    return 1;
  };
  const problem = urlProblem(databaseUrl);
  if (problem !== undefined) return stop(problem, "Nothing was changed.");
  try {
    const over = await ports.build();
    if (over.length > 0) return stop("The Worker is over its limits:", ...over, "Nothing was changed.");
  } catch (error) {
    return stop(error instanceof Error ? error.message : String(error), "Nothing was changed.");
  }
  say(`database    ${databaseOf(databaseUrl)}`);
  let migrations: readonly Migration[];
  let plan: MigrationPlan;
  try {
    migrations = await ports.readMigrations();
    plan = await planUrl(databaseUrl, migrations);
  } catch (error) {
    return stop(`The migrations cannot be compared: ${reasonOf(error, databaseUrl)}`, "Nothing was changed.");
  }
  for (const line of planLines(plan)) say(line);

  if (options.dryRun) {
    for (const line of warnings(plan)) say(line);
    const code = await ports.wrangler(["deploy", "--dry-run", "--minify", ...options.wranglerArgs]);
    say(
      code === 0
        ? "Nothing was changed: this was --dry-run."
        : "wrangler refused. Nothing was changed: this was --dry-run.",
    );
    return code;
  }
  if (!(await agreed(plan, options, ports))) return 1;
  if (!(await migrated(databaseUrl, migrations, plan, ports))) return 1;
  const code = await ports.wrangler(["deploy", "--minify", ...options.wranglerArgs]);
  if (code !== 0) {
    say(
      `wrangler failed with exit code ${code}. The database is migrated; the Worker was not deployed, and the one from before still runs.`,
    );
    say("Put right what wrangler said above, then run npm run deploy again: what is applied is not applied twice.");
    return code;
  }
  say("Deployed. Check it: HANGO_ADMIN_KEY=... npm run doctor -- https://your.worker.example");
  return 0;
};
