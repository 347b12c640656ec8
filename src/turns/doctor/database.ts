/** Whether the database answers, and has the schema that this version works with. */
import { postgresFault, StoreUnavailable } from "../../store/errors.ts";
import { describing, type KnownMigration, migrationState } from "../../store/migrations.ts";
import { type Check, CheckFailed } from "./check.ts";

/** Runs a statement without parameters. Values may come as text. */
export type AskDatabase = (statement: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

export interface DatabaseChecks {
  readonly ask: AskDatabase;
  /** ms, for how long an answer takes. */
  readonly now: () => number;
  readonly known: readonly KnownMigration[];
  readonly timeoutMs: number;
}

/** What PostgreSQL means by the codes that a wrong `DATABASE_URL` leads to. */
const MEANINGS: Readonly<Record<string, string>> = {
  "28000": "it refuses the user of DATABASE_URL",
  "28P01": "it refuses the user or the password of DATABASE_URL",
  "3D000": "there is no database of the name in DATABASE_URL",
  "42501": "the user of DATABASE_URL may not read it",
  "53300": "it has no connection left",
};

/** A database's error in words that hold neither SQL nor an address. */
const failureOf = (error: unknown): CheckFailed => {
  const code = postgresFault(error)?.code;
  if (code !== undefined) return new CheckFailed(`${MEANINGS[code] ?? "it refused"} (SQLSTATE ${code})`);
  if (error instanceof StoreUnavailable)
    return new CheckFailed(`${error.message}: see DATABASE_URL, and whether the database is up`);
  return new CheckFailed("it could not be reached: see DATABASE_URL, and whether the database is up");
};

const isTrue = (value: unknown): boolean => value === true || value === "t";

interface Server {
  readonly version: string;
  readonly migrated: boolean;
}

/** Both checks, of one connection. The second waits for the first, and fails without saying more where that fails. */
export const databaseChecks = ({ ask, now, known, timeoutMs }: DatabaseChecks): readonly Check[] => {
  const asked = async (statement: string) => {
    try {
      return await ask(statement);
    } catch (error) {
      throw failureOf(error);
    }
  };
  let server: Promise<Server> | undefined;
  const askServer = async (): Promise<Server> => {
    const [row] = await asked(describing.server);
    return { version: String(row?.version).split(" ")[0] ?? "", migrated: isTrue(row?.migrated) };
  };
  const serverOnce = (): Promise<Server> => {
    server ??= askServer();
    return server;
  };
  return [
    {
      name: "database",
      timeoutMs,
      look: async () => {
        const { version } = await serverOnce();
        // The first answer may have had to wake the database, and to open the connection.
        const startedMs = now();
        await asked(describing.server);
        return `PostgreSQL ${version}, answers in ${Math.round(now() - startedMs)} ms`;
      },
    },
    {
      name: "migrations",
      timeoutMs,
      look: async () => {
        const { migrated } = await serverOnce().catch(() => {
          throw new CheckFailed("not known while the database does not answer");
        });
        const applied = migrated ? (await asked(describing.ledger)).map((row) => Number(row.applied)) : [];
        const { pending, unknown } = migrationState(known, applied);
        if (pending.length > 0)
          throw new CheckFailed(
            `${pending.length} of ${known.length} not applied (${inShort(pending)}): run npm run deploy`,
          );
        if (unknown > 0)
          throw new CheckFailed(
            `the database has ${unknown} that this version does not know: it was migrated by a newer one, deploy that`,
          );
        return `all ${known.length} applied, the newest is ${known.at(-1)?.tag}`;
      },
    },
  ];
};

const inShort = (tags: readonly string[]): string =>
  tags.length <= 3 ? tags.join(", ") : `${tags[0]} to ${tags.at(-1)}`;
