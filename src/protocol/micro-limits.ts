/** Defaults and bounds of micro-compaction's settings (context.md, section 11): the same for the deployment's variables and a session's. */

/** A pass after every so many turns. */
export const DEFAULT_EVERY_N_TURNS = 1;
export const MAX_MICRO_TURNS = 1_000;

/** How much the rolling summary may grow before it is written anew, in tokens; under the least, every other pass would do just that. */
export const DEFAULT_DEFRAG_TOKENS = 2_000;
export const MIN_DEFRAG_TOKENS = 200;
export const MAX_DEFRAG_TOKENS = 100_000;
