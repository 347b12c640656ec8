/** The doctor inside of the Worker: everything that it is bound to, looked at from where it is used. */
import { askDatabase, knownMigrations } from "../../store/migrations.ts";
import type { Deps } from "../deps.ts";
import { filesCheck, queueCheck } from "./bindings.ts";
import { type CheckResult, runChecks } from "./check.ts";
import { configurationInWords } from "./configuration.ts";
import { databaseChecks } from "./database.ts";
import { providerChecks } from "./provider.ts";
import { telemetryCheck } from "./telemetry.ts";

/** For a call of a service that answers in a fraction of it; a Neon database that has to wake up takes a second. */
const TIMEOUT_MS = 8_000;

/**
 * Makes every check, side by side. Writes and deletes one object, sends one message that asks for nothing, and calls no model.
 * @param id of this look, not used before
 */
export const examine = ({ config, db, bucket, queue, fetch, now }: Deps, id: string): Promise<readonly CheckResult[]> =>
  runChecks([
    { name: "configuration", timeoutMs: TIMEOUT_MS, look: async () => configurationInWords(config) },
    ...databaseChecks({
      ask: (statement) => askDatabase(db, statement),
      now,
      known: knownMigrations,
      timeoutMs: TIMEOUT_MS,
    }),
    filesCheck({ bucket, id, timeoutMs: TIMEOUT_MS }),
    queueCheck({ queue, timeoutMs: TIMEOUT_MS }),
    ...providerChecks({ config, fetch, timeoutMs: TIMEOUT_MS }),
    telemetryCheck({ settings: config.telemetry, fetch }),
  ]);
