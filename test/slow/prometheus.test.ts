/**
 * The dashboard and the alert rules in a real Prometheus. What the built Worker exports is added up and scraped; every query of the dashboard finds
 * something, every rule can be evaluated, and each alert fires on its trouble and on no healthy service (`promtool test rules`).
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { JOB_METRIC } from "../../src/local/dashboard/panels.ts";
import { type Collector, startCollector } from "../support/collector.ts";
import { exportEverything, startObserved } from "../support/exported.ts";
import { ALERTS, alertRules, dashboardQueries } from "../support/grafana.ts";
import type { TestPlatform } from "../support/platform.ts";
import { exportedSeries, exposition } from "../support/prometheus.ts";
import { ensurePrometheus, type PrometheusServer, promtool, startPrometheus } from "../support/prometheus-server.ts";
import { substituted } from "../support/promql.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

const RULE_TESTS = "test/fixtures/prometheus/alerts.test.yaml";

/** May install the package. */
const LONGEST_START_MS = 600_000;

let programs: ReturnType<typeof ensurePrometheus>;

beforeAll(() => {
  programs = ensurePrometheus();
}, LONGEST_START_MS);

describe("the alert rules", () => {
  it("are valid", async () => {
    const { ok, said } = await promtool(programs.tool, "check", "rules", ALERTS);
    expect(said).toContain(`${(await alertRules()).length} rules found`);
    expect(ok, said).toBe(true);
  });

  it("each fire on the trouble that they are for, and are quiet on a healthy service", async () => {
    const { ok, said } = await promtool(programs.tool, "test", "rules", RULE_TESTS);
    expect(ok, said).toBe(true);
  });

  it("have a case each in which they fire with all labels that tell them apart", async () => {
    const text = await readFile(join(import.meta.dirname, "../..", RULE_TESTS), "utf8");
    const cases: { tests: { promql_expr_test: { exp_samples: { labels: string }[] }[] }[] } = parse(text);
    const fired = cases.tests
      .flatMap((each) => each.promql_expr_test)
      .flatMap((each) => each.exp_samples)
      .filter(({ labels }) => labels.includes("severity="))
      .map(({ labels }) => /alertname="(\w+)"/.exec(labels)?.[1]);
    expect([...new Set(fired)].toSorted()).toEqual((await alertRules()).map(({ alert }) => alert).toSorted());
  });
});

describe("a Prometheus that scrapes what a Worker has exported", () => {
  let collector: Collector;
  let platform: TestPlatform;
  let scraped: Receiver;
  let prometheus: PrometheusServer;

  beforeAll(async () => {
    collector = await startCollector();
    platform = await startObserved(collector);
    await exportEverything(platform, collector);
    const whole = exportedSeries(collector.points);
    // A counter begins at 0, grows, and stays: three scrapes that differ, as a Prometheus that injects zero samples sees a new isolate.
    const answers = [0, 0.5, 1].map((share) => exposition(whole, ({ value }) => value * share));
    let scrapes = 0;
    scraped = await startReceiver((_request, _body, response) => {
      response.setHeader("content-type", "text/plain; version=0.0.4");
      response.end(answers[Math.min(scrapes, answers.length - 1)]);
      scrapes++;
    });
    prometheus = await startPrometheus(programs.server, new URL(scraped.url).host, ALERTS);
    await vi.waitFor(() => expect(scrapes).toBeGreaterThan(answers.length + 1), { timeout: 20_000, interval: 200 });
  }, 240_000);
  afterAll(async () => {
    await prometheus.close();
    scraped.close();
    await platform.close();
    collector.close();
  });

  const valuesOf = async (query: string): Promise<readonly number[]> => {
    const { result } = (await prometheus.get("query", { query })) as { result: { value: [number, string] }[] };
    return result.map(({ value: [, value] }) => Number(value));
  };

  it("has every series, with what the Worker counted", async () => {
    const [total] = await valuesOf("sum(hango_turn_duration_seconds_count)");
    const counted = collector.metric("hango.turn.duration").reduce((sum, { count }) => sum + count, 0);
    expect(total).toBe(counted);
  });

  it("names the service to choose", async () => {
    expect(await prometheus.get("label/job/values", { "match[]": JOB_METRIC })).toEqual(["hango"]);
  });

  it("answers every query of the dashboard, each with a number", async () => {
    const queries = (await dashboardQueries()).filter(({ language }) => language === "promql");
    const empty: string[] = [];
    for (const { where, text } of queries) {
      const values = await valuesOf(
        substituted(text, { $__rate_interval: "30s", $__interval: "5s", $__range: "1h", $job: "hango" }),
      );
      if (!values.some(Number.isFinite)) empty.push(`${where}: ${values.join(", ") || "nothing"}`);
    }
    expect(queries.length).toBeGreaterThan(25);
    expect(empty).toEqual([]);
  });

  it("counts a rare event as often as it happened: nothing is lost at the beginning of a series, and nothing extrapolated", async () => {
    const counted = collector.metric("hango.queue.dead_letters").reduce((sum, { value }) => sum + value, 0);
    const query = (await dashboardQueries()).find(({ where }) => where === "Dead letters A")?.text ?? "";
    expect(await valuesOf(substituted(query))).toEqual([counted]);
  });

  it("evaluates every rule without an error, and alerts at once of the dead letter", async () => {
    interface Evaluated {
      readonly name: string;
      readonly health: string;
      readonly lastError?: string;
    }
    const names = (await alertRules()).map(({ alert }) => alert);
    await vi.waitFor(
      async () => {
        const { groups } = (await prometheus.get("rules")) as { groups: { rules: Evaluated[] }[] };
        const rules = groups.flatMap((group) => group.rules);
        expect(rules.map(({ name, health, lastError = "" }) => [name, health, lastError])).toEqual(
          names.map((name) => [name, "ok", ""]),
        );
      },
      { timeout: 20_000 },
    );
    const { alerts } = (await prometheus.get("alerts")) as {
      alerts: { state: string; labels: Record<string, string>; annotations: Record<string, string> }[];
    };
    const dead = alerts.filter(({ labels, state }) => labels["alertname"] === "HangoDeadLetters" && state === "firing");
    expect(dead.map(({ annotations }) => annotations["summary"])).toEqual([
      "hango: queue messages of type erase_objects were given up",
    ]);
  });
});
