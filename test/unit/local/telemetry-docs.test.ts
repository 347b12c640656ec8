/** docs/telemetry.md, the dashboard's file and the alert rules agree with each other and with the sources, as far as their text goes. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { renderMetrics, withMetrics } from "../../../src/local/docs-metrics.ts";
import { genai, hango, http, messaging, metric } from "../../../src/telemetry/genai.ts";
import { alertRules, type DashboardPanel, readDashboard } from "../../support/grafana.ts";

const page = await readFile(join(import.meta.dirname, "../../../docs/telemetry.md"), "utf8");

const blocks = (language: string): readonly string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map(([, block = ""]) => block);

type Part = Readonly<Record<string, unknown>> | null;

interface CollectorConfig {
  readonly extensions: Readonly<Record<string, Part>>;
  readonly receivers: Readonly<Record<string, Part>>;
  readonly processors: Readonly<Record<string, Part>>;
  readonly exporters: Readonly<Record<string, Part>>;
  readonly service: {
    readonly extensions: readonly string[];
    readonly pipelines: Readonly<
      Record<string, Readonly<Record<"receivers" | "processors" | "exporters", readonly string[]>>>
    >;
  };
}

describe("the collector's configuration on the page", () => {
  const [text = "", scrape = ""] = blocks("yaml");
  const config: CollectorConfig = parse(text);

  it("has every part that a pipeline names, and names every part but the alternative", () => {
    const pipelines = Object.values(config.service.pipelines);
    for (const kind of ["receivers", "processors", "exporters"] as const) {
      const used = new Set(pipelines.flatMap((pipeline) => pipeline[kind]));
      const alternatives = kind === "exporters" ? ["prometheusremotewrite"] : [];
      expect([...used, ...alternatives].toSorted()).toEqual(Object.keys(config[kind]).toSorted());
    }
    expect(config.service.extensions).toEqual(Object.keys(config.extensions));
  });

  it("makes deltas cumulative behind the limiter, and forgets a sum when its series is forgotten", () => {
    const { processors } = config.service.pipelines["metrics"] ?? { processors: [] };
    expect(processors.slice(0, 2)).toEqual(["memory_limiter", "deltatocumulative"]);
    expect(config.processors["deltatocumulative"]?.["max_stale"]).toBe(
      config.exporters["prometheus"]?.["metric_expiration"],
    );
    expect(config.exporters["prometheus"]?.["translation_strategy"]).toBe("UnderscoreEscapingWithSuffixes");
  });

  it("is scraped at its own port, with its labels kept", () => {
    const { scrape_configs } = parse(scrape) as {
      scrape_configs: { honor_labels: boolean; static_configs: { targets: string[] }[] }[];
    };
    expect(scrape_configs.map(({ honor_labels }) => honor_labels)).toEqual([true]);
    const port = String(config.exporters["prometheus"]?.["endpoint"]).split(":")[1];
    expect(scrape_configs[0]?.static_configs[0]?.targets[0]?.split(":")[1]).toBe(port);
  });
});

describe("docs/telemetry.md", () => {
  it("speaks of no name that the sources do not have", () => {
    const strings = (value: unknown): readonly string[] =>
      typeof value === "string"
        ? [value]
        : typeof value === "object" && value !== null
          ? Object.values(value).flatMap(strings)
          : [];
    const known = new Set([genai, hango, http, messaging, metric].flatMap(strings));
    const named = [...page.matchAll(/`((?:gen_ai|hango|http|messaging|error|provider)\.[\w.]+)`/g)].map(
      ([, name = ""]) => name,
    );
    expect(named.length).toBeGreaterThan(50);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  it("has no shell block but those that say why no test runs them", () => {
    const told = [...page.matchAll(/^<!-- not run: [^\n]+ -->\n```sh$/gm)];
    expect(blocks("sh")).toHaveLength(told.length);
    expect(told.length).toBeGreaterThan(0);
  });

  it("shows a log line that is one", () => {
    for (const line of blocks("json"))
      expect(JSON.parse(line)).toMatchObject({
        level: expect.any(String),
        msg: expect.any(String),
        trace_id: expect.any(String),
        span_id: expect.any(String),
      });
    expect(blocks("json").length).toBeGreaterThan(0);
  });

  it("lists every alert with its severity, in the order of the file", async () => {
    const listed = [...page.matchAll(/^\| `(Hango\w+)` \| (\w+) \|/gm)].map(([, alert, severity]) => [alert, severity]);
    expect(listed).toEqual((await alertRules()).map(({ alert, labels }) => [alert, labels["severity"]]));
  });

  it("has the tables of the sources between its marks; a page without the marks, or with them twice, is refused", () => {
    expect(page).toContain(renderMetrics());
    expect(withMetrics(page)).toBe(page);
    const begin = page.split("\n").find((line) => line.includes("npm run docs:metrics")) ?? "";
    expect(() => withMetrics(page.replace(begin, ""))).toThrow("must have each of these lines once");
    expect(() => withMetrics(`${page}\n${begin}`)).toThrow("must have each of these lines once");
    expect(withMetrics(page.replace("hango_turn_duration_seconds`", "hango_old_name`"))).toBe(page);
  });
});

it("every alert says what it is, what it means and what to do, and how severe it is", async () => {
  const rules = await alertRules();
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  for (const { alert, labels, annotations } of rules) {
    expect(["warning", "critical"], alert).toContain(labels["severity"]);
    expect(annotations["summary"], alert).toMatch(/^\{\{ \$labels\.job \}\}: /);
    expect(annotations["description"]?.length, alert).toBeGreaterThan(80);
    expect(annotations["runbook"], alert).toBe("docs/operations.md#runbook");
  }
});

describe("the dashboard's file", () => {
  const overlap = (a: DashboardPanel["gridPos"], b: DashboardPanel["gridPos"]): boolean =>
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

  it("has panels of their own ids that stand beside each other, within the 24 columns", async () => {
    const { panels } = await readDashboard();
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const [at, { title, gridPos }] of panels.entries()) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      for (const other of panels.slice(at + 1))
        expect(overlap(gridPos, other.gridPos), `${title}, ${other.title}`).toBe(false);
    }
  });

  it("asks no data source but the two that are chosen at its top, and explains every panel", async () => {
    const { panels, templating, schemaVersion, uid } = await readDashboard();
    expect([uid, schemaVersion]).toEqual(["hango", 39]);
    expect(templating.list.map(({ name, type }) => [name, type])).toEqual([
      ["prometheus", "datasource"],
      ["tempo", "datasource"],
      ["job", "query"],
    ]);
    const shown = panels.filter(({ type }) => type !== "row");
    expect(shown.length).toBeGreaterThan(25);
    for (const { title, description = "", datasource, targets = [] } of shown) {
      expect(description.length, title).toBeGreaterThan(15);
      expect(targets.length, title).toBeGreaterThan(0);
      expect(datasource, title).toEqual({ type: datasource?.type, uid: `$${datasource?.type}` });
      for (const target of targets) expect(target.datasource, title).toEqual(datasource);
      expect(new Set(targets.map(({ refId }) => refId)).size, title).toBe(targets.length);
    }
  });
});
