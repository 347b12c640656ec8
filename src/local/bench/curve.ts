/** A line chart as SVG, drawn by hand: two axes in percent, a curve, and named points. Pure text. */

export interface ChartPoint {
  /** 0 to 1. */
  readonly x: number;
  /** 0 to 1. */
  readonly y: number;
}

export interface NamedPoint extends ChartPoint {
  readonly name: string;
}

export interface Chart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  /** The axes end here; both begin at 0. */
  readonly xMax: number;
  readonly curve: readonly ChartPoint[];
  readonly points: readonly NamedPoint[];
  /** What has to be reached: at least `y` at no more than `x`. */
  readonly goal: ChartPoint;
}

const WIDTH = 720;
const HEIGHT = 440;
const LEFT = 64;
const RIGHT = 24;
const TOP = 48;
const BOTTOM = 56;
const TICK = 0.1;

const escaped = (text: string): string =>
  text.split("&").join("&amp;").split("<").join("&lt;").split(">").join("&gt;").split('"').join("&quot;");

const round = (value: number): string => String(Math.round(value * 10) / 10);
const percent = (value: number): string => `${Math.round(value * 100)} %`;

const text = (x: number, y: number, words: string, attributes = ""): string =>
  `<text x="${round(x)}" y="${round(y)}"${attributes === "" ? "" : ` ${attributes}`}>${escaped(words)}</text>`;

const line = (from: readonly [number, number], to: readonly [number, number], stroke: string): string =>
  `<line x1="${round(from[0])}" y1="${round(from[1])}" x2="${round(to[0])}" y2="${round(to[1])}" stroke="${stroke}"/>`;

const ticks = (most: number): readonly number[] =>
  Array.from({ length: Math.floor(most / TICK + 0.001) + 1 }, (_, at) => at * TICK);

/** The chart as a whole SVG document: fixed size, light background, no scripts, no fonts of its own. */
export const chartSvg = (chart: Chart): string => {
  const x = (value: number): number => LEFT + (value / chart.xMax) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number => HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM);
  const path = chart.curve.map((point) => `${round(x(point.x))},${round(y(point.y))}`).join(" ");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">`,
    `<title>${escaped(chart.title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    text(LEFT, 28, chart.title, 'font-size="15" font-weight="bold"'),
    ...ticks(1).flatMap((at) => [
      line([LEFT, y(at)], [WIDTH - RIGHT, y(at)], "#e4e4e4"),
      text(LEFT - 8, y(at) + 4, percent(at), 'text-anchor="end"'),
    ]),
    ...ticks(chart.xMax).flatMap((at) => [
      line([x(at), y(0)], [x(at), y(0) + 5], "#888"),
      text(x(at), y(0) + 20, percent(at), 'text-anchor="middle"'),
    ]),
    line([LEFT, y(0)], [WIDTH - RIGHT, y(0)], "#888"),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, chart.xLabel, 'text-anchor="middle"'),
    text(
      18,
      (TOP + HEIGHT - BOTTOM) / 2,
      chart.yLabel,
      `text-anchor="middle" transform="rotate(-90 18 ${round((TOP + HEIGHT - BOTTOM) / 2)})"`,
    ),
    `<rect x="${round(x(0))}" y="${round(y(1))}" width="${round(x(chart.goal.x) - x(0))}" height="${round(y(chart.goal.y) - y(1))}" fill="#2a7" fill-opacity="0.15"/>`,
    text(
      x(0) + 8,
      y(chart.goal.y) + 16,
      `asked for: ${percent(chart.goal.y)} at no more than ${percent(chart.goal.x)}`,
    ),
    `<polyline points="${path}" fill="none" stroke="#1565c0" stroke-width="2"/>`,
    ...chart.curve.map((point) => `<circle cx="${round(x(point.x))}" cy="${round(y(point.y))}" r="3" fill="#1565c0"/>`),
    ...chart.points.flatMap((point) => [
      `<circle cx="${round(x(point.x))}" cy="${round(y(point.y))}" r="4" fill="#b35a00"/>`,
      text(x(point.x) + 8, y(point.y) + 4, point.name),
    ]),
    "</svg>",
    "",
  ].join("\n");
};
