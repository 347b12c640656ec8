/** Context size per turn as a picture: for the terminal, and as SVG. Compactions are marked. */

export interface ChartTurn {
  readonly turn: number;
  /** Of the turn's last prompt, in tokens. */
  readonly contextTokens: number;
  /** Sizes of the requests that were compacted in this turn, before and after, in tokens. */
  readonly compactions: readonly { readonly before: number; readonly after: number }[];
}

export interface ChartInput {
  readonly title: string;
  readonly windowTokens: number;
  /** Where compaction begins. */
  readonly triggerTokens: number;
  readonly turns: readonly ChartTurn[];
}

/** Widest and highest picture in the terminal, in characters. */
const COLUMNS = 72;
const ROWS = 12;

const grouped = (value: number): string => value.toLocaleString("en-US");

/** The highest a turn came. */
const peak = (turn: ChartTurn): number => Math.max(turn.contextTokens, ...turn.compactions.map(({ before }) => before));

interface Bar {
  readonly tokens: number;
  readonly compacted: boolean;
}

/** One bar for each turn, or for neighbours where there are more turns than columns. */
const bars = (turns: readonly ChartTurn[]): readonly Bar[] => {
  const width = Math.max(1, Math.ceil(turns.length / COLUMNS));
  return Array.from({ length: Math.ceil(turns.length / width) }, (_, at) => {
    const some = turns.slice(at * width, (at + 1) * width);
    return {
      tokens: Math.max(...some.map(peak)),
      compacted: some.some(({ compactions }) => compactions.length > 0),
    };
  });
};

/** The chart for a terminal: a column for each turn, `▼` over those in which the session was compacted. */
export const terminalChart = ({ title, windowTokens, triggerTokens, turns }: ChartInput): string => {
  const columns = bars(turns);
  const label = (tokens: number): string => grouped(Math.round(tokens)).padStart(grouped(windowTokens).length);
  const lines = Array.from({ length: ROWS }, (_, index) => {
    const row = ROWS - index;
    const upper = (row / ROWS) * windowTokens;
    const lower = ((row - 1) / ROWS) * windowTokens;
    const holdsTrigger = lower < triggerTokens && triggerTokens <= upper;
    const cells = columns.map(({ tokens }) =>
      tokens > (upper + lower) / 2 ? "█" : tokens > lower ? "▄" : holdsTrigger ? "╌" : " ",
    );
    const axis = row === ROWS ? label(windowTokens) : holdsTrigger ? label(triggerTokens) : label(0).replace("0", " ");
    return `${axis} ┤${cells.join("")}`;
  });
  const margin = " ".repeat(grouped(windowTokens).length + 2);
  const marks = columns.map(({ compacted }) => (compacted ? "▼" : " ")).join("");
  const from = turns[0]?.turn ?? 0;
  const to = String(turns.at(-1)?.turn ?? 0);
  return [
    title,
    `${margin}${marks}`.trimEnd(),
    ...lines,
    `${label(0)} └${"─".repeat(columns.length)}`,
    `${margin}${String(from)}${to.padStart(Math.max(to.length + 1, columns.length - String(from).length))}  turn`,
    `${margin}▼ compacted   ╌ where compaction begins`,
  ].join("\n");
};

const WIDTH = 760;
const HEIGHT = 320;
const LEFT = 64;
const RIGHT = 16;
const TOP = 44;
const BOTTOM = 44;

const escaped = (text: string): string =>
  [...text].map((one) => (one === "&" ? "&amp;" : one === "<" ? "&lt;" : one === ">" ? "&gt;" : one)).join("");

const rounded = (value: number): string => (Math.round(value * 10) / 10).toString();

/** The same as an SVG document: the line falls where the session was compacted. */
export const svgChart = ({ title, windowTokens, triggerTokens, turns }: ChartInput): string => {
  const last = Math.max(1, turns.length - 1);
  const x = (index: number): number => LEFT + (index / last) * (WIDTH - LEFT - RIGHT);
  const y = (tokens: number): number => HEIGHT - BOTTOM - (tokens / windowTokens) * (HEIGHT - TOP - BOTTOM);
  const point = (index: number, tokens: number): string => `${rounded(x(index))},${rounded(y(tokens))}`;
  const line = turns.flatMap(({ contextTokens, compactions }, index) => [
    ...compactions.flatMap(({ before, after }) => [point(index, before), point(index, after)]),
    point(index, contextTokens),
  ]);
  const level = (tokens: number, name: string, style: string): string =>
    `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${rounded(y(tokens))}" y2="${rounded(y(tokens))}" ${style}/>` +
    `<text x="${LEFT - 6}" y="${rounded(y(tokens) + 4)}" text-anchor="end">${grouped(tokens)}</text>` +
    `<text x="${LEFT + 6}" y="${rounded(y(tokens) - 5)}">${name}</text>`;
  const marks = turns.flatMap(({ turn, compactions }, index) =>
    compactions.map(
      ({ before, after }) =>
        `<circle cx="${rounded(x(index))}" cy="${rounded(y(before))}" r="4" fill="#c2410c"><title>turn ${turn}: ${grouped(before)} to ${grouped(after)} tokens</title></circle>`,
    ),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#334155">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    `<text x="${LEFT}" y="20" font-size="14">${escaped(title)}</text>`,
    level(windowTokens, "window", 'stroke="#94a3b8"'),
    level(triggerTokens, "compaction begins", 'stroke="#94a3b8" stroke-dasharray="4 4"'),
    `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${rounded(y(0))}" y2="${rounded(y(0))}" stroke="#94a3b8"/>`,
    `<text x="${LEFT - 6}" y="${rounded(y(0) + 4)}" text-anchor="end">0</text>`,
    `<polyline points="${line.join(" ")}" fill="none" stroke="#2563eb" stroke-width="1.5"/>`,
    ...marks,
    `<text x="${LEFT}" y="${HEIGHT - 16}">turn ${turns[0]?.turn ?? 0}</text>`,
    `<text x="${WIDTH - RIGHT}" y="${HEIGHT - 16}" text-anchor="end">turn ${turns.at(-1)?.turn ?? 0}</text>`,
    `<text x="${WIDTH / 2}" y="${HEIGHT - 16}" text-anchor="middle">tokens of the prompt; a dot: compacted</text>`,
    "</svg>",
    "",
  ].join("\n");
};
