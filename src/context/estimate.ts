/** Tokens of a text, by kind of character, in one pass and without a tokenizer's table (E3). */
import { CLASS_OF } from "./char-classes.ts";
import { COSTS_PER_TOKEN, NEXT_BITS, STEPS } from "./text-automaton.ts";

const NEXT_MASK = (1 << NEXT_BITS) - 1;

/**
 * Estimates the tokens of a text, as the tokenizer of models before 4.7 makes them; `Estimator.scale` says what later ones make of that.
 * Text appended never makes it smaller.
 * @returns tokens, rounded up; 0 for an empty text
 */
export const estimateTokens = (text: string): number => {
  let costs = 0;
  let row = 0;
  for (let i = 0; i < text.length; i++) {
    // Both reads are inside their tables: there is a class for each unit, and a row for each state.
    const step = STEPS[row + (CLASS_OF[text.charCodeAt(i)] as number)] as number;
    costs += step >> NEXT_BITS;
    row = step & NEXT_MASK;
  }
  return Math.ceil(costs / COSTS_PER_TOKEN);
};
