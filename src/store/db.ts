/** The connection to Postgres: Neon's HTTP driver under drizzle, with a counter of round trips. One per request. */
import { neon, neonConfig } from "@neondatabase/serverless";
import type { SQL } from "drizzle-orm";
import { drizzle, type NeonHttpDatabase } from "drizzle-orm/neon-http";
import type { Tracer } from "../telemetry/tracer.ts";
import { StoreUnavailable } from "./errors.ts";

export interface DbSettings {
  readonly databaseUrl: string;
  /** Where Neon's protocol is spoken, when it is not at Neon: the local platform. */
  readonly fetchEndpoint?: string | undefined;
  /** Longest wait for one round trip. */
  readonly timeoutMs: number;
}

/** HTTP requests to the database so far (architecture section 2). */
export interface RoundTrips {
  /** Those that a turn is made of. */
  counted: number;
  /** Lease renewals and cancel checks, which count apart. */
  apart: number;
}

export type Row = Readonly<Record<string, unknown>>;

export interface Db {
  readonly orm: NeonHttpDatabase;
  readonly roundTrips: Readonly<RoundTrips>;
  /**
   * Runs statements in one transaction and one round trip; all or nothing.
   * @returns the rows of each statement, in order
   * @throws StoreUnavailable when the answer did not arrive: the batch may have been stored. Batches of this project can be sent again.
   */
  batch(statements: readonly SQL[], options?: BatchOptions): Promise<readonly (readonly Row[])[]>;
  /** The same connection with a count of its own, for a run inside of another. */
  countingApart(): Db;
}

export interface BatchOptions {
  /** Name of the database span. */
  readonly name?: string;
  /** The batch may be sent again when its answer is lost: it stores nothing twice (M3). */
  readonly repeatable?: boolean;
  readonly apart?: boolean;
}

/** What our fetch reads from the options that the driver passes through: state of one request, never of the isolate. */
interface Passenger {
  readonly onRequest: () => void;
  readonly timeoutMs: number;
}

/** A repeatable batch is sent at most so often: once, and twice more when the network failed. */
const MAX_SENDS = 3;

const fetchWithPassenger = (url: string, init: RequestInit & { hango?: Passenger }): Promise<Response> => {
  const { hango, ...rest } = init;
  hango?.onRequest();
  return fetch(url, hango === undefined ? rest : { ...rest, signal: AbortSignal.timeout(hango.timeoutMs) });
};

/** Connects; does no I/O by itself. */
export const connect = (settings: DbSettings, tracer: Tracer): Db => {
  neonConfig.fetchFunction = fetchWithPassenger;
  const { fetchEndpoint } = settings;
  if (fetchEndpoint !== undefined) neonConfig.fetchEndpoint = fetchEndpoint;

  return counting(settings, tracer);
};

const counting = (settings: DbSettings, tracer: Tracer): Db => {
  const roundTrips: RoundTrips = { counted: 0, apart: 0 };
  const open = (onRequest: () => void): NeonHttpDatabase => {
    const hango: Passenger = { onRequest, timeoutMs: settings.timeoutMs };
    return drizzle(neon(settings.databaseUrl, { fetchOptions: { hango } }));
  };
  const orm = open(() => roundTrips.counted++);
  const apart = open(() => roundTrips.apart++);

  const send = async (statements: readonly SQL[], options: BatchOptions): Promise<readonly (readonly Row[])[]> => {
    const target = options.apart === true ? apart : orm;
    const [first, ...others] = statements.map((statement) => target.execute(statement));
    if (first === undefined) return [];
    const results = await target.batch([first, ...others]);
    return results.map((result) => result.rows);
  };

  const batch: Db["batch"] = (statements, options = {}) =>
    tracer.span(
      `postgres ${options.name ?? "batch"}`,
      { kind: "client", attributes: { "db.system.name": "postgresql", "db.operation.batch.size": statements.length } },
      async () => {
        for (let sends = 1; ; sends++) {
          try {
            return await send(statements, options);
          } catch (error) {
            const unavailable = StoreUnavailable.from(error);
            if (unavailable === undefined) throw error;
            if (options.repeatable !== true || sends >= MAX_SENDS) throw unavailable;
          }
        }
      },
    );

  return { orm, roundTrips, batch, countingApart: () => counting(settings, tracer) };
};
