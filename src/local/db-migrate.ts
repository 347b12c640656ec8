/** `npm run db:migrate`: applies the migrations to the PostgreSQL or Neon database at DATABASE_URL. */
import { isPoolerHost, parseConnectionString } from "./connection-string.ts";
import { MIGRATIONS_DIR, type MigrationReport, migrateUrl, readMigrations, reasonOf } from "./migrate.ts";

const USAGE =
  "DATABASE_URL is not set. Give the direct (not the -pooler) connection string: postgres://user:password@host/database";

/** Returns the exit code. */
async function main(connectionString: string | undefined): Promise<0 | 1> {
  if (connectionString === undefined || connectionString === "") {
    console.error(USAGE);
    return 1;
  }
  try {
    const { hostname } = parseConnectionString(connectionString);
    if (isPoolerHost(hostname)) {
      console.error(
        "Warning: DATABASE_URL names a -pooler host. Migrations belong on the direct host, without -pooler.",
      );
    }
    const report = await migrateUrl(connectionString, await readMigrations(MIGRATIONS_DIR));
    for (const line of summary(report)) console.log(line);
    return 0;
  } catch (error) {
    console.error(`Migration failed: ${reasonOf(error, connectionString)}`);
    return 1;
  }
}

function summary({ applied, present, unknown }: MigrationReport): readonly string[] {
  const lines = applied.map((tag) => `applied ${tag}`);
  lines.push(
    applied.length === 0
      ? `Up to date: ${present} migrations.`
      : `${applied.length} applied, ${present} already present.`,
  );
  if (unknown > 0) lines.push(`The database has ${unknown} migrations that this version does not know.`);
  return lines;
}

process.exitCode = await main(process.env.DATABASE_URL);
