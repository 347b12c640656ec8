/** Cuts text into the words that identifiers are looked for in. One pass, no pattern. */

const BACKSLASH = 0x5c;
const SLASH = 0x2f;
const COLON = 0x3a;
const COMMA = 0x2c;

/** Space, quotes, brackets and separators: no identifier holds them. */
const ENDS = new Set([..." \t\n\r\f\v\"'`<>()[]{},;|"].map((character) => character.charCodeAt(0)));

const isAsciiEnd = (unit: number): boolean => unit < 0x21 || ENDS.has(unit);

/** Quotation marks and punctuation of other scripts. */
const isOtherEnd = (unit: number): boolean =>
  unit === 0xa0 ||
  (unit >= 0x2018 && unit <= 0x201f) ||
  (unit >= 0x3000 && unit <= 0x303f) ||
  (unit >= 0xff00 && unit <= 0xff0f) ||
  (unit >= 0xff1a && unit <= 0xff1f);

/** Scripts that are written without spaces: an id stands between their signs with nothing around it. */
const isUnspaced = (unit: number): boolean => unit >= 0x2e80 && unit <= 0xffef && !(unit >= 0xd800 && unit <= 0xdfff);

const isLower = (unit: number): boolean => unit >= 0x61 && unit <= 0x7a;
const isUpper = (unit: number): boolean => unit >= 0x41 && unit <= 0x5a;

/** The letters of escapes in text that is itself quoted: the `n` of a written `\n` belongs to no word. */
const ESCAPES = new Set([..."nrtbfu\"'`\\/"].map((character) => character.charCodeAt(0)));

/** Longer words are data (base64, minified code) and not names. */
export const MAX_WORD_CHARS = 400;

/**
 * Calls `visit` for each word, in order.
 *
 * `plain` says that it is all small letters, the first one aside, as most words of prose are. Words over `MAX_WORD_CHARS` are left out.
 */
export const eachWord = (text: string, visit: (word: string, plain: boolean) => void): void => {
  let start = -1;
  let plain = true;
  let isInPath = false;
  const end = (at: number): void => {
    if (start >= 0 && at - start <= MAX_WORD_CHARS) visit(text.slice(start, at), plain);
    start = -1;
  };
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (isLower(unit)) {
      if (start < 0) {
        start = at;
        plain = true;
        isInPath = false;
      }
      continue;
    }
    if (unit === COMMA && isThousands(text, at)) continue;
    if (unit < 0x80 ? isAsciiEnd(unit) : isOtherEnd(unit)) {
      end(at);
      continue;
    }
    if (unit === BACKSLASH && !isDrive(text, start, at)) {
      end(at);
      if (ESCAPES.has(text.charCodeAt(at + 1))) at++;
      continue;
    }
    // A path may hold such signs, but not right after a sign of another script: there the sentence goes on.
    if (unit >= 0x2e80 && isUnspaced(unit) && !(isInPath && continuesPath(text.charCodeAt(at - 1)))) {
      end(at);
      continue;
    }
    if (start < 0) {
      start = at;
      plain = isUpper(unit);
      isInPath = false;
    } else plain = false;
    if (unit === SLASH) isInPath = true;
  }
  end(text.length);
};

const continuesPath = (before: number): boolean => before === SLASH || isUnspaced(before);

/** Whether the word that began at `start` is a Windows path, of which a backslash is a part. */
const isDrive = (text: string, start: number, at: number): boolean =>
  start >= 0 && at - start >= 2 && text.charCodeAt(start + 1) === COLON && text.charCodeAt(start + 2) === BACKSLASH;

const isDigit = (unit: number): boolean => unit >= 0x30 && unit <= 0x39;

/** Whether the comma at `at` divides the thousands of one number: three digits follow, and no fourth. */
const isThousands = (text: string, at: number): boolean =>
  isDigit(text.charCodeAt(at - 1)) &&
  isDigit(text.charCodeAt(at + 1)) &&
  isDigit(text.charCodeAt(at + 2)) &&
  isDigit(text.charCodeAt(at + 3)) &&
  !isDigit(text.charCodeAt(at + 4)) &&
  !(isDigit(text.charCodeAt(at - 2)) && isDigit(text.charCodeAt(at - 3)) && isDigit(text.charCodeAt(at - 4)));
