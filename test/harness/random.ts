/** Seeded randomness: the same seed gives the same plans, texts and ids. */

export interface Random {
  /** In [0, 1). */
  next(): number;
  /** A whole number, both bounds included. */
  int(min: number, max: number): number;
  /** True with this probability. */
  chance(probability: number): boolean;
  pick<T>(from: readonly [T, ...T[]]): T;
  /** One of these, as often as its weight says. */
  weighted<T>(from: readonly (readonly [weight: number, value: T])[]): T;
}

/** @param seed any whole number */
export const randomOf = (seed: number): Random => {
  // mulberry32: small, and good enough to choose with.
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const int = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    int,
    chance: (probability) => next() < probability,
    pick: (from) => from[int(0, from.length - 1)] ?? from[0],
    weighted: (from) => {
      let left = next() * from.reduce((sum, [weight]) => sum + weight, 0);
      for (const [weight, value] of from) {
        left -= weight;
        if (left < 0) return value;
      }
      const last = from.at(-1);
      if (last === undefined) throw new Error("nothing to choose from");
      return last[1];
    },
  };
};

/** One number of two, spread over all bits. */
export const mixed = (seed: number, index: number): number =>
  Math.imul((seed ^ Math.imul(index + 1, 0x9e3779b1)) >>> 0, 0x85ebca6b) >>> 0;

const WORDS =
  "the build of a small house took three weeks and cost more than was planned because rain came early while paint dried slowly near open windows under grey light".split(
    " ",
  );

/** Plain words, so many characters or a few more; nothing in them is a command or a mark. */
export const prose = (random: Random, chars: number): string => {
  const words: string[] = [];
  for (let length = 0; length < chars; ) {
    const word = WORDS[random.int(0, WORDS.length - 1)] ?? "the";
    words.push(word);
    length += word.length + 1;
  }
  return words.join(" ");
};
