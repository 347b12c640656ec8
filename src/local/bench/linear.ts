/**
 * What reads text that others wrote takes time in proportion to it, whatever the text: each function on hostile texts of two sizes. A
 * test could only hold such a time to a limit of its own, which a busy machine breaks; a ratio of two times of one run stands.
 */
import { clipContent } from "../../context/clip.ts";
import { demoteContent } from "../../context/demote.ts";
import { estimateTokens } from "../../context/estimate.ts";
import { findConstraints, findIdentifiers } from "../../context/identifiers.ts";
import { readOverflow } from "../../models/overflow.ts";
import type { Role } from "../../protocol/messages.ts";
import { redact } from "../../protocol/redact.ts";
import { countText } from "../simulator/tokens.ts";

interface Subject {
  readonly name: string;
  readonly chars: number;
  /** Texts of about this many characters, by what is hostile in them. */
  readonly texts: (chars: number) => Readonly<Record<string, string>>;
  readonly work: (text: string) => unknown;
}

const GROWTH = 4;
/** Linear work takes 4 times as long on 4 times as much, quadratic work 16 times; memory that no longer fits a cache costs something too. */
export const MOST_TIMES = 6;
/** Samples of each size, in turns. */
const PAIRS = 9;
/** Least time of one sample, in ms; shorter work is repeated. */
const SAMPLE_MS = 3;

const filled = (piece: string, chars: number): string => piece.repeat(Math.ceil(chars / piece.length));
const repeated =
  (...pieces: readonly string[]): Subject["texts"] =>
  (chars) =>
    Object.fromEntries(pieces.map((piece) => [JSON.stringify(piece), filled(piece, chars)]));

const resultOf = (content: string): string =>
  `[{"type":"tool_result","tool_use_id":"toolu_1","content":${JSON.stringify(content)}}]`;
const callOf = (input: string): string => `[{"type":"tool_use","id":"toolu_1","name":"write_file","input":${input}}]`;

const clip =
  (role: Role): Subject["work"] =>
  (text) =>
    clipContent(text, role, 500, estimateTokens);

const SUBJECTS: readonly Subject[] = [
  {
    name: "clip, calls",
    chars: 500_000,
    texts: (chars) => ({
      "one long string": callOf(JSON.stringify({ content: filled("abcdefghi\n", chars) })),
      "many short ones": callOf(JSON.stringify({ values: filled("12345,", chars).split(",") })),
      "nested deeply": callOf(`${filled('{"a":[', (chars * 3) / 4)}0${filled("]}", chars / 4)}`),
    }),
    work: clip("assistant"),
  },
  {
    name: "clip, results",
    chars: 500_000,
    texts: (chars) => ({ lines: resultOf(filled("abcdefghi\n", chars)), ideographs: resultOf(filled("漢", chars)) }),
    work: clip("user"),
  },
  {
    name: "demote",
    chars: 500_000,
    texts: (chars) => ({ lines: resultOf(filled("abcdefghi\n", chars)) }),
    work: (text) => demoteContent(text, new Set(["toolu_1"]), 1),
  },
  {
    name: "identifiers",
    chars: 100_000,
    texts: repeated("a", "/", "-", ".", "a_", "0f", "x=", "\\", "a:/", "字"),
    work: (text) => findIdentifiers(text, new Map(), () => {}),
  },
  {
    name: "constraints",
    chars: 100_000,
    texts: repeated("never ", "never. ", "a", ".", "必须"),
    work: findConstraints,
  },
  {
    name: "redact",
    chars: 100_000,
    texts: (chars) => ({
      ...repeated(
        "password=",
        "authorization: ",
        "-----BEGIN PRIVATE KEY-----",
        "a_",
        "://a:",
        "eyJ",
        "sk-",
        '\\"',
      )(chars),
      ...repeated(
        "-eyJaaaaaaaa",
        "token",
        "ghp_",
        "secret='",
        "-----END PRIVATE KEY-----",
        "cookie: a=",
        "curl -u a:",
      )(chars),
      ...repeated(
        "QUJDREVGR0hJSktMTU5PUA==\n",
        "mysql ",
        "%3A%2F%2F",
        "api_key: |\n ",
        "basic QUJD",
        "://a:b@",
        "<token>",
      )(chars),
    }),
    work: redact,
  },
  {
    name: "redact, JSON",
    chars: 100_000,
    texts: (chars) => ({
      "nested deeply": `${filled('{"a":[', (chars * 3) / 4)}0${filled("]}", chars / 4)}`,
      pairs: `[${filled('{"name":"API_KEY","value":"x"},', chars)}0]`,
      "one string": JSON.stringify({ a: filled('password="a" ', chars) }),
    }),
    work: redact,
  },
  {
    // Only the first 4,000 characters are read.
    name: "overflow",
    chars: 1_000,
    texts: repeated("request too large for limit 1, ", "maximum context length is 1,"),
    work: (text) => readOverflow(429, text) ?? readOverflow(400, text),
  },
  {
    name: "the simulator's tokens",
    chars: 25_000,
    texts: repeated("a", " ", "=", "漢字仮名", "hello world. "),
    work: countText,
  },
];

const timed = (work: Subject["work"], text: string, times: number): number => {
  const startedMs = performance.now();
  for (let done = 0; done < times; done++) work(text);
  return (performance.now() - startedMs) / times;
};

/**
 * The time on the smaller text, in ms, and how many times as long the larger one takes. Other work on the machine stretches a time and
 * never shortens it, so the least of several is the nearest to the truth.
 */
const compare = (work: Subject["work"], small: string, large: string) => {
  let times = GROWTH;
  while (timed(work, small, times) * times < SAMPLE_MS) times *= 2;
  const pairs = Array.from({ length: PAIRS }, () => ({
    smallMs: timed(work, small, times),
    largeMs: timed(work, large, times / GROWTH),
  }));
  const ms = Math.min(...pairs.map(({ smallMs }) => smallMs));
  return { ms, ratio: Math.min(...pairs.map(({ largeMs }) => largeMs)) / ms };
};

/** Prints each function's worst text. @returns whether no text of 4 times the size takes over 6 times as long */
export const benchLinear = (): boolean => {
  const worst = SUBJECTS.map(({ name, chars, texts, work }) => {
    const larger = texts(GROWTH * chars);
    const compared = Object.entries(texts(chars)).map(([what, text]) => ({
      name,
      what,
      chars,
      ...compare(work, text, larger[what] ?? ""),
    }));
    return compared.reduce((a, b) => (b.ratio > a.ratio ? b : a));
  });
  const lines = worst.map(
    ({ name, what, chars, ms, ratio }) =>
      `| ${name} | ${what} | ${chars.toLocaleString("en")} | ${ms.toFixed(2)} ms | ${ratio.toFixed(1)} |`,
  );
  process.stdout.write(
    `\nTime on ${GROWTH} times as much text (the least of ${PAIRS}; the worst text of each)\n\n| | text | characters | time | times as long |\n| --- | --- | --- | --- | --- |\n${lines.join("\n")}\n`,
  );
  const held = worst.every(({ ratio }) => ratio <= MOST_TIMES);
  process.stdout.write(held ? "\nAll of it is linear.\n" : `\nBroken: a ratio is over ${MOST_TIMES}.\n`);
  return held;
};
