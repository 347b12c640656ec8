/** What a schema cannot see of a trigger's settings: templates, URLs, time zones, and what goes with what. */
import type { Config } from "../config.ts";
import { callProblem } from "../webhooks/call.ts";
import { isTimeZone, nextTick, scheduleProblem } from "../webhooks/schedule.ts";
import { templateProblem } from "../webhooks/template.ts";
import { invalidInput } from "./error-response.ts";
import { invalid } from "./errors.ts";
import { checkModels } from "./session-models.ts";
import { checkSubagents } from "./session-subagents.ts";
import { checkTools } from "./session-tools.ts";
import { type TriggerSettings, triggerSettings } from "./trigger-schema.ts";

const checkTemplates = ({ session_key, prompt }: TriggerSettings): void => {
  for (const [name, template] of Object.entries({ session_key, prompt })) {
    const problem = template === undefined ? null : templateProblem(template);
    if (problem !== null) throw invalid(name, problem);
  }
  if (prompt?.includes("```") === true) {
    throw invalid("prompt", "must not contain ```: every value is put between backticks already");
  }
};

const checkCalls = (given: TriggerSettings, allowPrivate: boolean): void => {
  const calls = given.type === "webhook" ? { ack: given.ack, reply: given.reply } : { reply: given.reply };
  for (const [name, call] of Object.entries(calls)) {
    const problem = call === undefined ? null : callProblem(call, allowPrivate);
    if (problem !== null) throw invalid(`${name}.${problem.path}`, problem.message);
  }
};

/**
 * @throws ApiError `invalid_request` with the place and what would be right
 */
export const checkTrigger = (
  given: TriggerSettings,
  config: Pick<Config, "allowPrivateUrls" | "openai" | "modelProfiles">,
  nowMs: number,
): void => {
  checkTemplates(given);
  checkCalls(given, config.allowPrivateUrls);
  checkTools(given.session.tools ?? [], config.allowPrivateUrls, "session.");
  checkModels(given.session, config, "session.");
  checkSubagents(given.session.subagents, given.session.tools ?? [], "session.");
  if (given.debounce_seconds > 0 && given.session_key === undefined) {
    throw invalid("debounce_seconds", "needs a `session_key`: without one no two events belong together");
  }
  if (given.type !== "cron") return;
  const { schedule } = given;
  if (!isTimeZone(schedule.time_zone)) {
    throw invalid("schedule.time_zone", "expected a name of the IANA time zone database, such as Europe/Berlin");
  }
  const problem = scheduleProblem(schedule, nowMs);
  if (problem !== null) throw invalid("schedule.cron", problem);
};

/** The settings after a change: what is given replaces, null takes back, and the whole is checked as a new trigger's. */
export const changedSettings = (
  current: Readonly<Record<string, unknown>>,
  change: Readonly<Record<string, unknown>>,
): TriggerSettings => {
  const merged = Object.fromEntries(
    Object.entries({ ...current, ...change }).filter(([, value]) => value !== null && value !== undefined),
  );
  const result = triggerSettings.safeParse(merged);
  if (!result.success) throw invalidInput(result.error);
  return result.data;
};

/** When a trigger with these settings is due; null for a webhook and while it is disabled. */
export const firstTick = (given: TriggerSettings, nowMs: number): string | null =>
  given.type === "cron" && given.enabled ? nextTick(given.schedule, nowMs) : null;
