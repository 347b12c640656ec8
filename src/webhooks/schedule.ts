/** When a cron trigger is due, in a time zone. */
import { Cron } from "croner";

export interface Schedule {
  /** Five fields: minute, hour, day of month, month, day of week; or a nickname such as `@daily`. */
  readonly cron: string;
  /** An IANA name, such as `Europe/Berlin`. */
  readonly time_zone: string;
}

const FIELDS = "five fields (minute, hour, day of month, month, day of week)";

const cronOf = ({ cron, time_zone }: Schedule): Cron =>
  new Cron(cron, { timezone: time_zone, mode: "5-part", paused: true });

/** The first moment after this one, RFC 3339; null when there is none. @param afterMs since the epoch */
export const nextTick = (schedule: Schedule, afterMs: number): string | null =>
  cronOf(schedule).nextRun(new Date(afterMs))?.toISOString() ?? null;

/** Whether the runtime knows a time zone. */
export const isTimeZone = (name: string): boolean => {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
};

/** Why a schedule cannot be used, in words that stand after the name of the field; null when it can. The time zone must be a known one. */
export const scheduleProblem = (schedule: Schedule, nowMs: number): string | null => {
  try {
    return nextTick(schedule, nowMs) === null ? "names no moment that is still to come" : null;
  } catch (error) {
    const fields = schedule.cron.trim().split(/\s+/).length;
    if (fields !== 5 && !schedule.cron.startsWith("@")) return `expected ${FIELDS}, found ${fields}`;
    const said = error instanceof Error ? error.message.replace(/^CronPattern: */, "") : "";
    return `is no cron expression of ${FIELDS}${said === "" ? "" : `: ${said}`}`;
  }
};
