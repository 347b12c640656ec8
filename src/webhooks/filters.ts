/** Which events a trigger takes: conditions on what was received, and never the agent's own. */
import { scalarAt, valueAt } from "./paths.ts";
import type { SchemeName } from "./verification.ts";

type Scalar = string | number | boolean;

/** One condition: a place and exactly one test. */
export interface Filter {
  /** `payload.action`, `headers.x-github-event`. */
  readonly path: string;
  readonly equals?: Scalar | undefined;
  readonly not_equals?: Scalar | undefined;
  readonly in?: readonly Scalar[] | undefined;
  readonly not_in?: readonly Scalar[] | undefined;
  readonly exists?: boolean | undefined;
  readonly prefix?: string | undefined;
  readonly suffix?: string | undefined;
  readonly contains?: string | undefined;
}

export const filterTests = ["equals", "not_equals", "in", "not_in", "exists", "prefix", "suffix", "contains"] as const;

/** Header values are text: `1` and `"1"` are the same there, and nowhere else. */
const same = (path: string, value: unknown, wanted: Scalar): boolean =>
  value === wanted || (path.startsWith("headers.") && value === String(wanted));

const holds = (filter: Filter, received: unknown): boolean => {
  const { path } = filter;
  const value = valueAt(received, path);
  const text = typeof value === "string" ? value : undefined;
  if (filter.equals !== undefined) return same(path, value, filter.equals);
  if (filter.not_equals !== undefined) return !same(path, value, filter.not_equals);
  if (filter.in !== undefined) return filter.in.some((each) => same(path, value, each));
  if (filter.not_in !== undefined) return !filter.not_in.some((each) => same(path, value, each));
  if (filter.exists !== undefined) return (value !== undefined && value !== null) === filter.exists;
  if (filter.prefix !== undefined) return text?.startsWith(filter.prefix) === true;
  if (filter.suffix !== undefined) return text?.endsWith(filter.suffix) === true;
  if (filter.contains !== undefined) {
    // Of a list: one of its members, such as a label.
    return Array.isArray(value) ? value.includes(filter.contains) : text?.includes(filter.contains) === true;
  }
  return true;
};

/** Whether all conditions hold. @param received `{payload, headers}` */
export const passes = (filters: readonly Filter[], received: unknown): boolean =>
  filters.every((filter) => holds(filter, received));

/** How the agent's own doings are told from those of people. */
export interface OwnEvents {
  /** False to take what bots and apps did too. */
  readonly ignore_bots?: boolean | undefined;
  /** Further senders that are not answered: logins, user ids, bot ids. */
  readonly senders?: readonly string[] | undefined;
}

/** Where each sender says who did it. */
const ACTORS: Partial<Readonly<Record<SchemeName, readonly string[]>>> = {
  github: ["payload.sender.login", "payload.sender.id"],
  slack: ["payload.event.user", "payload.event.bot_id", "payload.event.app_id", "payload.user_id", "payload.user.id"],
  linear: ["payload.actor.id", "payload.actor.name", "payload.data.userId"],
};

/** Whether a bot did it: an answer of the agent comes back as an event, and answering that would never end. */
const isBots = (scheme: SchemeName, received: unknown): boolean => {
  switch (scheme) {
    case "github":
      return scalarAt(received, "payload.sender.type") === "Bot";
    case "slack":
      return (
        scalarAt(received, "payload.event.bot_id") !== undefined ||
        scalarAt(received, "payload.event.message.bot_id") !== undefined ||
        scalarAt(received, "payload.event.subtype") === "bot_message"
      );
    case "linear": {
      const type = scalarAt(received, "payload.actor.type");
      return type !== undefined && type.toLowerCase() !== "user";
    }
    case "standard":
    case "stripe":
    case "hmac":
    case "bearer":
      return false;
    default:
      return scheme satisfies never;
  }
};

/** Whether the event is the agent's own. Bots are ignored unless the trigger says otherwise. */
export const isOwn = (scheme: SchemeName, own: OwnEvents, received: unknown): boolean => {
  if (own.ignore_bots !== false && isBots(scheme, received)) return true;
  const senders = own.senders ?? [];
  if (senders.length === 0) return false;
  return (ACTORS[scheme] ?? []).some((path) => senders.includes(scalarAt(received, path) ?? ""));
};
