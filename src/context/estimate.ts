/** A rough count of tokens, by kind of character, in one pass and without a table (E3). */

/**
 * Tokens per character. Latin prose, code and JSON of recorded sessions run at 2.2 to 2.9 characters a token on current
 * tokenizers; scripts of one sign per syllable or word cost about a token each, other alphabets about half of one.
 */
const TOKENS_PER_ASCII = 1 / 2.7;
const TOKENS_PER_OTHER_ALPHABET = 1 / 1.8;
const TOKENS_PER_IDEOGRAPH = 1;

/** First code unit of the scripts written in ideographs, syllables and surrogate pairs (CJK radicals and above). */
const IDEOGRAPHS_FROM = 0x2e80;

/**
 * Estimates the tokens of a text.
 * @returns tokens, rounded up; 0 for an empty text
 */
export const estimateTokens = (text: string): number => {
  let ascii = 0;
  let ideographs = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) ascii++;
    else if (unit >= IDEOGRAPHS_FROM) ideographs++;
  }
  const others = text.length - ascii - ideographs;
  return Math.ceil(ascii * TOKENS_PER_ASCII + others * TOKENS_PER_OTHER_ALPHABET + ideographs * TOKENS_PER_IDEOGRAPH);
};
