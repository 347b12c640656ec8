/** The words of Grafana's dashboards (11 and later), as far as ours needs them: rows of panels over Prometheus and Tempo become one JSON document. */

/** How a number is shown; Grafana's own ids of units. */
export type Unit = "short" | "s" | "percentunit" | "currencyUSD" | "reqps" | "none";

interface Common {
  readonly title: string;
  /** What is seen, and when to worry. */
  readonly description: string;
}

/** One query of Prometheus and the name that its series get. */
export interface Target {
  readonly expr: string;
  readonly legend: string;
}

/** One number, over the time range that is looked at. */
export interface StatPanel extends Common {
  readonly kind: "stat";
  readonly unit: Unit;
  readonly expr: string;
  /** From where on the number is yellow, and red. */
  readonly steps?: readonly [yellow: number, red: number];
}

/** Lines over time, or bars for what is counted per step. */
export interface TimePanel extends Common {
  readonly kind: "time";
  readonly unit: Unit;
  readonly draw?: "lines" | "stacked" | "bars";
  readonly targets: readonly Target[];
}

/** Traces that TraceQL finds. */
export interface TracePanel extends Common {
  readonly kind: "traces";
  readonly query: string;
}

export type Panel = StatPanel | TimePanel | TracePanel;

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const PROMETHEUS = { type: "prometheus", uid: "$prometheus" } as const;
const TEMPO = { type: "tempo", uid: "$tempo" } as const;

/** Grafana's grid is 24 wide. */
const SIZES = { stat: { w: 4, h: 4 }, time: { w: 12, h: 8 }, traces: { w: 24, h: 9 } } as const;
const GRID_WIDTH = 24;

const refId = (at: number): string => String.fromCharCode("A".charCodeAt(0) + at);

const statBody = ({ unit, expr, steps }: StatPanel) => {
  const colours = [
    { color: "green", value: null },
    ...(steps === undefined
      ? []
      : [
          { color: "yellow", value: steps[0] },
          { color: "red", value: steps[1] },
        ]),
  ];
  return {
    type: "stat",
    datasource: PROMETHEUS,
    targets: [{ refId: "A", datasource: PROMETHEUS, expr, instant: true, range: false, legendFormat: "__auto" }],
    fieldConfig: { defaults: { unit, thresholds: { mode: "absolute", steps: colours } }, overrides: [] },
    options: {
      reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false },
      colorMode: "value",
      graphMode: "none",
    },
  };
};

const timeBody = ({ unit, draw = "lines", targets }: TimePanel) => ({
  type: "timeseries",
  datasource: PROMETHEUS,
  targets: targets.map(({ expr, legend }, at) => ({
    refId: refId(at),
    datasource: PROMETHEUS,
    expr,
    range: true,
    instant: false,
    legendFormat: legend,
  })),
  fieldConfig: {
    defaults: {
      unit,
      min: 0,
      custom: {
        drawStyle: draw === "bars" ? "bars" : "line",
        fillOpacity: draw === "lines" ? 0 : 60,
        lineWidth: 1,
        showPoints: "auto",
        spanNulls: false,
        stacking: { mode: draw === "lines" ? "none" : "normal", group: "A" },
      },
    },
    overrides: [],
  },
  options: {
    legend: { displayMode: "table", placement: "bottom", calcs: ["mean", "max"], showLegend: true },
    tooltip: { mode: "multi", sort: "desc" },
  },
});

const tracesBody = ({ query }: TracePanel) => ({
  type: "table",
  datasource: TEMPO,
  targets: [{ refId: "A", datasource: TEMPO, queryType: "traceql", query, limit: 20, spss: 3, tableType: "spans" }],
  fieldConfig: { defaults: {}, overrides: [] },
  options: { showHeader: true },
});

const bodyOf = (panel: Panel): object => {
  switch (panel.kind) {
    case "stat":
      return statBody(panel);
    case "time":
      return timeBody(panel);
    case "traces":
      return tracesBody(panel);
    default:
      return panel satisfies never;
  }
};

/** Panels of a row from left to right, in as many lines as they need. */
const laidOut = (rows: readonly Row[]): readonly object[] => {
  const placed: object[] = [];
  let y = 0;
  for (const { title, panels } of rows) {
    placed.push({
      id: placed.length + 1,
      type: "row",
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: GRID_WIDTH, h: 1 },
      panels: [],
    });
    y += 1;
    let x = 0;
    let height = 0;
    for (const panel of panels) {
      const { w, h } = SIZES[panel.kind];
      if (x + w > GRID_WIDTH) {
        y += height;
        x = 0;
        height = 0;
      }
      const { title: name, description } = panel;
      placed.push({ id: placed.length + 1, title: name, description, ...bodyOf(panel), gridPos: { x, y, w, h } });
      x += w;
      height = Math.max(height, h);
    }
    y += height;
  }
  return placed;
};

const dataSource = (name: string, label: string) => ({
  type: "datasource",
  name,
  label,
  query: name,
  current: {},
  hide: 0,
  includeAll: false,
  multi: false,
  options: [],
  refresh: 1,
  regex: "",
});

/** @param jobMetric a series that every deployment has; its `job` names the deployments to choose from */
export const dashboardOf = (rows: readonly Row[], jobMetric: string): object => ({
  __requires: [
    { type: "grafana", id: "grafana", name: "Grafana", version: "11.0.0" },
    { type: "datasource", id: "prometheus", name: "Prometheus", version: "1.0.0" },
    { type: "datasource", id: "tempo", name: "Tempo", version: "1.0.0" },
    { type: "panel", id: "stat", name: "Stat", version: "" },
    { type: "panel", id: "table", name: "Table", version: "" },
    { type: "panel", id: "timeseries", name: "Time series", version: "" },
  ],
  uid: "hango",
  title: "hango",
  description: "Turns, context, cost and faults of a hango deployment. What each number is: docs/telemetry.md.",
  tags: ["hango"],
  schemaVersion: 39,
  version: 1,
  editable: true,
  graphTooltip: 1,
  refresh: "1m",
  time: { from: "now-6h", to: "now" },
  timezone: "browser",
  annotations: { list: [] },
  links: [],
  templating: {
    list: [
      dataSource("prometheus", "Metrics"),
      dataSource("tempo", "Traces"),
      {
        type: "query",
        name: "job",
        label: "Service",
        datasource: PROMETHEUS,
        definition: `label_values(${jobMetric}, job)`,
        query: { query: `label_values(${jobMetric}, job)`, refId: "job" },
        current: { selected: true, text: ["All"], value: ["$__all"] },
        includeAll: true,
        allValue: ".+",
        multi: true,
        hide: 0,
        options: [],
        refresh: 2,
        regex: "",
        sort: 1,
      },
    ],
  },
  panels: laidOut(rows),
});
