/** How much room the rendered sections have in the handoff. */

/** Most tokens of each section. */
export interface SectionBudgets {
  readonly userTokens: number;
  readonly answerTokens: number;
  readonly fileTokens: number;
  readonly todoTokens: number;
  readonly identifierTokens: number;
  /** Of all sections together, before the index is cut to what the others leave. */
  readonly shareTokens: number;
}

/** The 5,000 tokens are S2's; the others were chosen beside it with the recall measurement. */
const USER_TOKENS = 5_000;
const ANSWER_TOKENS = 1_500;
const FILE_TOKENS = 1_500;
const TODO_TOKENS = 1_000;
const IDENTIFIER_TOKENS = 6_000;

/** A fixed budget of B tokens is `min(B, 0.05 x window)` (context.md, "Window"). */
const WINDOW_SHARE = 0.05;
/** Of the covered text, at most this part is said again by the sections. */
export const SECTION_SHARE = 0.15;

/**
 * The budgets for a model's window and the text that was covered.
 * @param sourceTokens of the covered text, over all generations
 */
export const sectionBudgets = (windowTokens: number, sourceTokens: number, share = SECTION_SHARE): SectionBudgets => {
  const most = Math.floor(windowTokens * WINDOW_SHARE);
  return {
    userTokens: Math.min(USER_TOKENS, most),
    answerTokens: Math.min(ANSWER_TOKENS, most),
    fileTokens: Math.min(FILE_TOKENS, most),
    todoTokens: Math.min(TODO_TOKENS, most),
    identifierTokens: Math.min(IDENTIFIER_TOKENS, most),
    shareTokens: Math.floor(sourceTokens * share),
  };
};
