/** What the subagents of a run use, while they do: its budget is theirs too. */
import type { Used } from "../store/statements.ts";
import { minus, NOTHING, plus } from "./used.ts";

export interface SubagentUse {
  /**
   * Counts a subagent in from now on.
   * @param used all that it has used, its own subagents included
   * @param before of that, what is counted already: it was begun by an earlier part of the run
   * @returns to be called when it has ended
   */
  watch(used: () => Used, before: Used): () => void;
  total(): Used;
  /** The run has, or had, a subagent. */
  any(): boolean;
}

/** @param before what the subagents of earlier parts of the run used; null where there were none */
export const createSubagentUse = (before: Used | null): SubagentUse => {
  let ended = before ?? NOTHING;
  let any = before !== null;
  const live = new Set<() => Used>();
  return {
    watch: (used, counted) => {
      any = true;
      const more = (): Used => minus(used(), counted);
      live.add(more);
      return () => {
        if (live.delete(more)) ended = plus(ended, more());
      };
    },
    total: () => [...live].reduce((sum, more) => plus(sum, more()), ended),
    any: () => any,
  };
};
