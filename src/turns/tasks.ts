/** This room's tasks of the cron trigger: what is due by the clock, and what got lost on its way through the queue. */
import { unfinishedCopies } from "../store/copies.ts";
import { eraseSession, takeDueErasures } from "../store/erasures.ts";
import { expireIdempotencyKeys } from "../store/expiry.ts";
import { expireEvents, expirePayloads, unusedFor, unusedSessions } from "../store/retention.ts";
import { strandedRuns } from "../store/take.ts";
import { metric } from "../telemetry/genai.ts";
import type { Deps } from "./deps.ts";
import type { MaintenanceTask, TaskEnd } from "./maintenance.ts";
import { refreshProfiles } from "./refresh-profiles.ts";
import { sendAll } from "./send-batch.ts";
import { sendErasures as sendErased } from "./send-erasures.ts";

const HOUR_SECONDS = 3_600;

/** Sessions that one tick erases or sends on; the next tick takes the rest. */
const SESSIONS_PER_TICK = 100;

/** Runs that one tick sends for; the next tick takes the rest. */
const RUNS_PER_TICK = 100;

/** Erasing takes a round trip for each of these. */
const UNUSED_PER_TICK = 50;

/** Runs whose events a round removes, and deliveries whose payload. */
const EXPIRING_RUNS = 100;
const EXPIRING_PAYLOADS = 500;

/** Rounds of one tick. */
const ROUNDS = 10;

/** Finds the runs that no Worker is at work on, and has the queue go on with them. */
const sendForStranded = async (deps: Deps): Promise<TaskEnd> => {
  const runs = await strandedRuns(deps.db, RUNS_PER_TICK);
  if (runs.length === 0) return "done";
  await sendAll(
    deps.queue,
    runs.map((run) => ({ v: 1, type: "run_turn", ...run })),
  );
  deps.meter.add(metric.runsStranded, runs.length);
  deps.log.info("sent for stranded runs", { runs: runs.length });
  return "done";
};

const sendErasures = async (deps: Deps): Promise<TaskEnd> => {
  const erasures = await takeDueErasures(deps.db, SESSIONS_PER_TICK);
  if (erasures.length === 0) return "done";
  await sendAll(
    deps.queue,
    erasures.map((erasure) => ({ v: 1, type: "erase_objects", ...erasure })),
  );
  deps.log.info("sent erasures to the queue", { erasures: erasures.length });
  return "done";
};

const sendCopies = async (deps: Deps): Promise<TaskEnd> => {
  const copies = await unfinishedCopies(deps.db, SESSIONS_PER_TICK);
  if (copies.length === 0) return "done";
  await sendAll(
    deps.queue,
    copies.map((copy) => ({ v: 1, type: "copy_files", ...copy })),
  );
  deps.log.info("sent unfinished copies to the queue again", { copies: copies.length });
  return "done";
};

/** Erases sessions that nobody used for `HANGO_RETENTION_DAYS`; a turn that begins meanwhile keeps its session. */
const eraseUnused = async (deps: Deps): Promise<TaskEnd> => {
  const days = deps.config.retentionDays;
  if (days === undefined) return "done";
  const unused = await unusedSessions(deps.db, days, UNUSED_PER_TICK);
  let erased = 0;
  for (const { tenantId, sessionId } of unused) {
    const done = await eraseSession(deps.db, tenantId, { id: sessionId }, unusedFor(days));
    if (done === undefined) continue;
    erased += 1;
    // Recorded: what the queue does not take is sent again.
    await sendErased(deps.queue, tenantId, done).catch(() => undefined);
  }
  if (erased > 0) deps.log.info("erased sessions by age", { sessions: erased, days });
  return unused.length === UNUSED_PER_TICK ? "more" : "done";
};

/** Repeats a round while it says that there is more. */
const rounds = async (round: () => Promise<boolean>): Promise<TaskEnd> => {
  for (let n = 0; n < ROUNDS; n++) if (!(await round())) return "done";
  return "more";
};

export const turnTasks: readonly MaintenanceTask[] = [
  { name: "stranded runs", everySeconds: 0, run: sendForStranded },
  { name: "copies", everySeconds: 0, run: sendCopies },
  { name: "erasures", everySeconds: 0, run: sendErasures },
  {
    name: "idempotency keys",
    everySeconds: HOUR_SECONDS,
    run: async ({ db }) => {
      await expireIdempotencyKeys(db);
      return "done";
    },
  },
  { name: "unused sessions", everySeconds: HOUR_SECONDS, run: eraseUnused },
  {
    name: "old events",
    everySeconds: HOUR_SECONDS,
    run: ({ db, config }) =>
      rounds(async () => (await expireEvents(db, config.eventRetentionDays, EXPIRING_RUNS)) === EXPIRING_RUNS),
  },
  {
    name: "old payloads",
    everySeconds: HOUR_SECONDS,
    run: ({ db, config }) => rounds(() => expirePayloads(db, config.eventRetentionDays, EXPIRING_PAYLOADS)),
  },
  {
    // Asks the provider; the models of one tick are few.
    name: "model profiles",
    everySeconds: 300,
    run: async (deps) => {
      await refreshProfiles(deps);
      return "done";
    },
  },
];
