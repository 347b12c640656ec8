import { describe, expect, it } from "vitest";
import { type ChartInput, svgChart, terminalChart } from "../../../../src/local/demo/chart.ts";

const chart: ChartInput = {
  title: "Sizes <of> a session",
  windowTokens: 12_000,
  triggerTokens: 10_200,
  turns: [
    { turn: 1, contextTokens: 3_000, compactions: [] },
    { turn: 2, contextTokens: 7_600, compactions: [] },
    { turn: 3, contextTokens: 5_000, compactions: [{ before: 11_000, after: 4_000 }] },
    { turn: 4, contextTokens: 6_000, compactions: [] },
  ],
};

describe("the chart of context size per turn", () => {
  it("is drawn in the terminal: a column a turn to its highest point, compacted turns marked", () => {
    expect(terminalChart(chart)).toBe(
      [
        "Sizes <of> a session",
        "          ▼",
        "12,000 ┤    ",
        "10,200 ┤╌╌█╌",
        "       ┤  █ ",
        "       ┤  █ ",
        "       ┤ ██ ",
        "       ┤ ██ ",
        "       ┤ ███",
        "       ┤ ███",
        "       ┤ ███",
        "       ┤████",
        "       ┤████",
        "       ┤████",
        "     0 └────",
        "        1  4  turn",
        "        ▼ compacted   ╌ where compaction begins",
      ].join("\n"),
    );
  });

  it("joins neighbouring turns where there are more than columns, and keeps every mark", () => {
    const many = Array.from({ length: 200 }, (_, at) => ({
      turn: at + 1,
      contextTokens: 1_000,
      compactions: at === 100 ? [{ before: 11_500, after: 1_000 }] : [],
    }));
    const [, marks, top] = terminalChart({ ...chart, turns: many }).split("\n");
    expect(marks?.trim()).toBe("▼");
    expect(top).toBe(`12,000 ┤${" ".repeat(33)}▄${" ".repeat(33)}`);
  });

  it("is drawn as SVG: the line rises to the size that was compacted and falls to what was left", () => {
    const svg = svgChart(chart);
    expect(svg).toContain('<text x="64" y="20" font-size="14">Sizes &lt;of&gt; a session</text>');
    expect(/points="([^"]*)"/.exec(svg)?.[1]?.split(" ")).toEqual([
      "64,218",
      "290.7,129.1",
      "517.3,63.3",
      "517.3,198.7",
      "517.3,179.3",
      "744,160",
    ]);
    expect(svg.match(/<circle/g)).toHaveLength(1);
    expect(svg).toContain("<title>turn 3: 11,000 to 4,000 tokens</title>");
  });
});
