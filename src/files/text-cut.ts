/** Cuts text without splitting a character in two, and puts sizes into words. */

const splitsPair = (text: string, at: number): boolean =>
  at > 0 && at < text.length && /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(at - 1, at + 1));

/** The first `length` UTF-16 units, or one less where the cut would split a pair. */
export const headOf = (text: string, length: number): string =>
  text.slice(0, splitsPair(text, length) ? length - 1 : length);

/** The last `length` UTF-16 units, or one less where the cut would split a pair. */
export const tailOf = (text: string, length: number): string => {
  const at = Math.max(0, text.length - length);
  return text.slice(splitsPair(text, at) ? at + 1 : at);
};

/** `1234567` as `1,234,567`. */
export const formatCount = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

/** A count and its noun: `1 line`, `2,000 lines`. */
export const plural = (count: number, noun: string): string => {
  const many = /(?:ch|sh|s|x)$/.test(noun) ? `${noun}es` : `${noun}s`;
  return `${formatCount(count)} ${count === 1 ? noun : many}`;
};

/** A size in bytes, exact below 10,000, else rounded to KB or MB (of 1,024 and 1,048,576 bytes). */
export const formatSize = (sizeBytes: number): string => {
  if (sizeBytes < 10_000) return plural(sizeBytes, "byte");
  return sizeBytes < 1_048_576 ? `${(sizeBytes / 1_024).toFixed(1)} KB` : `${(sizeBytes / 1_048_576).toFixed(1)} MB`;
};
