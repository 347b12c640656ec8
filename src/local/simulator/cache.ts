/** The prompt cache: entries by exact prefix, found through marks that look back, forgotten after their time. */
import type { Segment, Ttl } from "./prefix.ts";

/** Positions a mark looks at, its own included. */
const LOOK_BACK_BLOCKS = 20;
const TTL_MS: Readonly<Record<Ttl, number>> = { "5m": 5 * 60_000, "1h": 60 * 60_000 };

export interface CacheUsage {
  /** Tokens after the last cached position. */
  readonly inputTokens: number;
  readonly readTokens: number;
  readonly write5mTokens: number;
  readonly write1hTokens: number;
}

export interface CachePlan {
  readonly usage: CacheUsage;
  /** Makes the new entries readable and renews the ones read; called when the response begins. */
  readonly commit: () => void;
}

interface Entry {
  readonly ttl: Ttl;
  readonly untilMs: number;
}

/**
 * @returns `plan`: what the cache does for one request, from its segments, the chain of their digests (entry n stands for
 * everything up to segment n), the tokens of each, and the model's minimum
 */
export const createPromptCache = () => {
  const entries = new Map<string, Entry>();
  const alive = (link: string | undefined, nowMs: number): boolean => {
    const entry = link === undefined ? undefined : entries.get(link);
    return entry !== undefined && entry.untilMs > nowMs;
  };

  const plan = (
    segments: readonly Segment[],
    links: readonly string[],
    tokens: readonly number[],
    minimumTokens: number,
    nowMs: number,
  ): CachePlan => {
    const upTo: number[] = [];
    for (const count of tokens) upTo.push((upTo.at(-1) ?? 0) + count);
    const total = upTo.at(-1) ?? 0;
    const marks = segments.flatMap((one, at) => (one.mark === undefined ? [] : [{ at, ttl: one.mark }]));

    let readAt = -1;
    for (const mark of marks) {
      for (let at = mark.at; at > mark.at - LOOK_BACK_BLOCKS && at > readAt; at -= 1) {
        if (alive(links[at], nowMs)) {
          readAt = at;
          break;
        }
      }
    }
    const readTokens = readAt < 0 ? 0 : (upTo[readAt] ?? 0);
    const writes = marks.filter((mark) => mark.at > readAt && (upTo[mark.at] ?? 0) >= minimumTokens);
    const written = { "5m": 0, "1h": 0 };
    let from = readTokens;
    for (const mark of writes) {
      written[mark.ttl] += (upTo[mark.at] ?? 0) - from;
      from = upTo[mark.at] ?? from;
    }
    return {
      usage: { inputTokens: total - from, readTokens, write5mTokens: written["5m"], write1hTokens: written["1h"] },
      commit: () => {
        const renew = (at: number, ttl: Ttl): void => {
          const link = links[at];
          if (link !== undefined) entries.set(link, { ttl, untilMs: nowMs + TTL_MS[ttl] });
        };
        for (const mark of marks) {
          if (mark.at <= readAt && alive(links[mark.at], nowMs))
            renew(mark.at, entries.get(links[mark.at] ?? "")?.ttl ?? mark.ttl);
        }
        if (readAt >= 0) renew(readAt, entries.get(links[readAt] ?? "")?.ttl ?? "5m");
        for (const mark of writes) renew(mark.at, mark.ttl);
      },
    };
  };
  return { plan, clear: () => entries.clear() };
};

export type PromptCache = ReturnType<typeof createPromptCache>;
