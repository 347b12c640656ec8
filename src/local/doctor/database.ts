/** The database of `DATABASE_URL`, asked from this machine: over Neon's HTTP as the Worker does it, or as any PostgreSQL. */
import pg from "pg";
import { connect } from "../../store/db.ts";
import { type AskDatabase, asking } from "../../store/health.ts";
import { noopTracer } from "../../telemetry/tracer.ts";
import { isNeonHost, parseConnectionString, withVerifiedTls } from "../connection-string.ts";

export interface DatabaseSettings {
  readonly databaseUrl: string;
  /** Where Neon's protocol is spoken, when it is not at Neon. */
  readonly fetchEndpoint: string | undefined;
  readonly timeoutMs: number;
}

/** Connects for each statement, and lets the connection go with it. */
const askingPostgres =
  ({ databaseUrl, timeoutMs }: DatabaseSettings): AskDatabase =>
  async (statement) => {
    const client = new pg.Client({
      connectionString: withVerifiedTls(databaseUrl),
      connectionTimeoutMillis: timeoutMs,
      application_name: "hango doctor",
    });
    // A lost connection also rejects the query that runs; unheard, the event would end the process.
    client.on("error", () => undefined);
    try {
      await client.connect();
      return (await client.query(statement)).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  };

export const askingAt = (settings: DatabaseSettings): AskDatabase =>
  settings.fetchEndpoint !== undefined || isNeonHost(parseConnectionString(settings.databaseUrl).hostname)
    ? asking(connect(settings, noopTracer))
    : askingPostgres(settings);
