/** Cuts text without splitting a character in two, and puts counts into words. */

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** The first `length` UTF-16 units, or one less where that would keep half a pair. */
export const headOf = (text: string, length: number): string => {
  if (length >= text.length) return text;
  return text.slice(0, length > 0 && isHigh(text.charCodeAt(length - 1)) ? length - 1 : Math.max(0, length));
};

/** The last `length` UTF-16 units, or one less where that would keep half a pair. */
export const tailOf = (text: string, length: number): string => {
  if (length >= text.length) return text;
  const at = text.length - Math.max(0, length);
  return text.slice(at < text.length && isLow(text.charCodeAt(at)) ? at + 1 : at);
};

/** `1234567` as `1,234,567`. */
export const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

/** A count and its noun: `1 image`, `2,000 images`. */
export const counted = (count: number, noun: string): string => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
