/** Answering and summarising by picking lines: no understanding, and the same every time. */

const STOP_WORDS: ReadonlySet<string> = new Set(
  "a about an and any are as ask asked at be been but by can could did do does for from had has have he her his how i in is it its me my of on or our said say she should so tell that the their them then there they this to told us was we were what when where which who whom whose why will with would you your".split(
    " ",
  ),
);

const words = (text: string): readonly string[] =>
  (text.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}_./-]*/gu) ?? []).map((word) => word.replace(/[./-]+$/, ""));

/** The words of a question that say what it is about. */
export const keywords = (question: string): readonly string[] => [
  ...new Set(words(question).filter((word) => !STOP_WORDS.has(word))),
];

/** Lines of a text, long ones cut into sentences. */
export const linesOf = (text: string): readonly string[] =>
  text
    .split("\n")
    .flatMap((line) => (line.length > 300 ? line.split(/(?<=[.!?。])\s+/) : [line]))
    .map((line) => line.trim())
    .filter((line) => /[\p{L}\p{N}]/u.test(line));

/**
 * The lines that share most with a question, rare words counting more; best first, at most `most`.
 * @returns nothing when no line shares a word with it
 */
export const findLines = (question: string, lines: readonly string[], most: number): readonly string[] => {
  const wanted = keywords(question);
  const sets = lines.map((line) => new Set(words(line)));
  const holds = (set: ReadonlySet<string>, word: string): boolean =>
    set.has(word) || (word.length > 4 && [...set].some((other) => other.startsWith(word.slice(0, -1))));
  const weights = wanted.map((word) => {
    const holders = sets.filter((set) => holds(set, word)).length;
    return holders === 0 ? 0 : Math.log(1 + lines.length / holders);
  });
  const scored = sets.map((set, index) => ({
    index,
    score: wanted.reduce((sum, word, at) => sum + (holds(set, word) ? (weights[at] ?? 0) : 0), 0),
  }));
  const best = Math.max(0, ...scored.map((one) => one.score));
  if (best === 0) return [];
  return [
    ...new Set(
      scored
        .filter((one) => one.score >= best / 2)
        .sort((a, b) => b.score - a.score || a.index - b.index)
        .map((one) => lines[one.index] ?? ""),
    ),
  ].slice(0, most);
};

/** How much a line is worth keeping: identifiers, numbers, quotes and words of decision count. */
const worth = (line: string): number =>
  (line.match(/[/_#@:]\w|\d+|"[^"]+"|`[^`]+`/g)?.length ?? 0) +
  (/\b(decid|must|never|always|because|error|fail|fix|found|chose|prefer|agree|remember)/i.test(line) ? 3 : 0) +
  (line.length > 20 ? 1 : 0);

const SUMMARY_SHARE = 0.15;
const MAX_SUMMARY_LENGTH = 6_000;
const MAX_LINE_LENGTH = 240;

/** An extractive summary: the worthiest lines in their order, at most 15 % of the text and 6,000 characters. */
export const summarize = (text: string): string => {
  const lines = [...new Set(linesOf(text))].map((line) =>
    line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH - 1).toWellFormed()}…` : line,
  );
  const room = Math.min(MAX_SUMMARY_LENGTH, Math.max(200, text.length * SUMMARY_SHARE));
  const order = lines
    .map((line, index) => ({ line, index }))
    .sort((a, b) => worth(b.line) - worth(a.line) || a.index - b.index);
  const picked: { readonly line: string; readonly index: number }[] = [];
  let used = 0;
  for (const one of order) {
    if (picked.length > 0 && used + one.line.length > room) continue;
    picked.push(one);
    used += one.line.length + 3;
  }
  picked.sort((a, b) => a.index - b.index);
  return ["What was said and found:", ...picked.map((one) => `- ${one.line}`)].join("\n");
};
