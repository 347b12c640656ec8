/** `/_local/metrics`: what the counters and histograms have come to. */
import { html } from "hono/html";
import type { Part } from "./layout.ts";
import { type CounterSeries, type HistogramSeries, quantileOf, type Series } from "./metric-store.ts";
import { amount, counted, unitName } from "./readable.ts";

const attributesOf = ({ attributes }: Series) => {
  const entries = Object.entries(attributes).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.length === 0
    ? html`<span class="quiet">none</span>`
    : html`<span class="attributes">${entries.map(
        ([name, value]) =>
          html`<span><span class="quiet small">${name}</span> <code>${typeof value === "string" ? value : JSON.stringify(value)}</code></span>`,
      )}</span>`;
};

/** A bar for each bucket, those at both ends that are empty left out. */
const shape = ({ bucketCounts }: HistogramSeries) => {
  const first = bucketCounts.findIndex((count) => count > 0);
  if (first === -1) return "";
  const counts = bucketCounts.slice(first, bucketCounts.findLastIndex((count) => count > 0) + 1);
  const highest = Math.max(...counts);
  const width = 100 / Math.max(counts.length, 4);
  return html`<svg class="shape" aria-hidden="true">${counts.map((count, index) => {
    const height = (count / highest) * 100;
    return html`<rect x="${(index * width).toFixed(2)}%" width="${(width * 0.85).toFixed(2)}%" y="${(100 - height).toFixed(2)}%" height="${height.toFixed(2)}%"></rect>`;
  })}</svg>`;
};

const cell = (label: string, words: string) => html`<td class="number" data-label="${label}">${words}</td>`;

const histogramRow = (series: HistogramSeries) => {
  const { count, sum, unit } = series;
  const quantile = (share: number): string => {
    const value = quantileOf(series, share);
    return value === undefined ? "" : amount(value, unit);
  };
  return html`<tr><td>${attributesOf(series)}</td>
${cell("count", count.toLocaleString("en-US"))}${cell("mean", count === 0 ? "" : amount(sum / count, unit))}
${cell("p50", quantile(0.5))}${cell("p95", quantile(0.95))}${cell("max", series.max === undefined ? "" : amount(series.max, unit))}
<td>${shape(series)}</td></tr>`;
};

const isHistogram = (series: Series): series is HistogramSeries => series.kind === "histogram";
const isCounter = (series: Series): series is CounterSeries => series.kind === "counter";

const tableOf = (all: readonly Series[]) => {
  const histograms = all.filter(isHistogram);
  const counters = all.filter(isCounter).toSorted((a, b) => b.total - a.total);
  return [
    histograms.length === 0
      ? ""
      : html`<table class="metric"><thead><tr><th>attributes</th><th class="number">count</th><th class="number">mean</th><th class="number">p50</th><th class="number">p95</th><th class="number">max</th><th>buckets</th></tr></thead>
<tbody>${histograms.map(histogramRow)}</tbody></table>`,
    counters.length === 0
      ? ""
      : html`<table class="metric"><thead><tr><th>attributes</th><th class="number">total</th></tr></thead>
<tbody>${counters.map((series) => html`<tr><td>${attributesOf(series)}</td>${cell("total", amount(series.total, series.unit))}</tr>`)}</tbody></table>`,
  ];
};

const section = (name: string, all: readonly Series[]) => {
  const [first] = all;
  if (first === undefined) return "";
  return html`<section id="metric-${name}"><h2><code>${name}</code> <span class="quiet small">${first.kind}${first.unit === "" ? "" : `, ${unitName(first.unit)}`}</span></h2>
<p class="small quiet">${first.description}</p>
${tableOf(all)}</section>`;
};

export interface MetricsInput {
  readonly series: readonly Series[];
  readonly forgotten: number;
  /** What to run when there is nothing to see. */
  readonly exampleCommand: string;
}

export const renderMetrics = ({ series, forgotten, exampleCommand }: MetricsInput): Part => html`<h1>Metrics</h1>
<p class="quiet small">Added up since hango was started. p50 and p95 are read off the buckets, so they are near, not exact. The same as data: <a href="/_local/metrics.json">metrics.json</a>.</p>
${
  series.length === 0
    ? html`<div class="empty"><p>Nothing was counted yet. Run a turn, and look again:</p><pre>${exampleCommand}</pre></div>`
    : [...Map.groupBy(series, ({ name }) => name)].map(([name, all]) => section(name, all))
}
${forgotten === 0 ? "" : html`<p class="empty">${counted(forgotten, "series", "series")} did not fit into memory and began anew or are missing.</p>`}`;
