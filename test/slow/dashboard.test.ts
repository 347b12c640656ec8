/**
 * Every query of the dashboard and of the alert rules asks for what is really exported: each metric, label and value is compared with what the built
 * Worker sent to a real OTLP receiver, under the names that Prometheus gives it. And no metric is without a panel.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { errorCodes } from "../../src/api/errors.ts";
import type { AttemptStatus } from "../../src/context/attempt.ts";
import type { Guard } from "../../src/context/guards/state.ts";
import type { CompactionReason } from "../../src/context/ports.ts";
import { prometheusSeries } from "../../src/local/prometheus-names.ts";
import type { FailureKind } from "../../src/models/errors.ts";
import { type CallPurpose, genai, hango, http } from "../../src/telemetry/genai.ts";
import { instruments, type MetricName } from "../../src/telemetry/instruments.ts";
import type { PassOutcome } from "../../src/turns/micro-event.ts";
import { type Collector, startCollector } from "../support/collector.ts";
import { exportEverything, startObserved } from "../support/exported.ts";
import { alertRules, dashboardQueries, type Query } from "../support/grafana.ts";
import type { TestPlatform } from "../support/platform.ts";
import { exportedSeries, labelValues } from "../support/prometheus.ts";
import { type Selection, selectionsOf, substituted } from "../support/promql.ts";

let platform: TestPlatform;
let collector: Collector;
/** Label names and values by the name of the series. */
let exported: ReturnType<typeof labelValues>;
let queries: readonly Query[];
let rules: readonly Query[];

beforeAll(async () => {
  collector = await startCollector();
  platform = await startObserved(collector);
  await exportEverything(platform, collector);
  exported = labelValues(exportedSeries(collector.points));
  queries = await dashboardQueries();
  rules = (await alertRules()).map(({ alert, expr }) => ({ where: alert, language: "promql", text: expr }));
}, 180_000);
afterAll(async () => {
  await platform.close();
  collector.close();
});

/** Values of a closed list, each key once: the compiler refuses one that the code does not know, and a list that lacks one. */
const all = <T extends string>(values: Readonly<Record<T, true>>): readonly string[] => Object.keys(values);

const REASONS = all<CompactionReason | "micro">({
  threshold: true,
  overflow: true,
  tool: true,
  manual: true,
  truncate: true,
  micro: true,
  maintenance: true,
});
const OUTCOMES = all<AttemptStatus | PassOutcome>({
  committed: true,
  aborted: true,
  discarded_late: true,
  lock_contended: true,
  refused: true,
  nothing: true,
  blocked: true,
  failed: true,
  base_unreadable: true,
});
const GUARDS = all<Guard>({
  budget: true,
  cooldown: true,
  wait_one_response: true,
  same_result: true,
  effectiveness: true,
});
const PURPOSES = all<CallPurpose>({ turn: true, summarize: true, subagent: true });
const FAILURES = all<FailureKind>({
  context_overflow: true,
  too_large: true,
  rate_limited: true,
  overloaded: true,
  authentication: true,
  permission: true,
  quota: true,
  not_found: true,
  invalid_request: true,
  invalid_thinking_signature: true,
  network: true,
  timeout: true,
  stream_cut: true,
  server: true,
  aborted: true,
});

/** What a label can be, beside what this run has seen of it. */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  reason: REASONS,
  outcome: OUTCOMES,
  guard: GUARDS,
  hango_call_purpose: PURPOSES,
  hango_run_status: ["completed", "failed", "cancelled"],
  gen_ai_token_type: ["input", "output"],
};

/** Codes of the API's errors where it answers, kinds of failure where it asks a model. */
const errorTypesOf = (metric: string): readonly string[] =>
  metric.startsWith("gen_ai_client_operation_duration") ? FAILURES : [...errorCodes];

const literals = (op: string, value: string): readonly string[] => (op.endsWith("~") ? value.split("|") : [value]);

/** What is wrong with a selector, in words; none where it asks for what is there. */
const faultsOf = ({ metric, matchers, groupedBy }: Selection): readonly string[] => {
  const labels = exported.get(metric);
  if (labels === undefined) return [`${metric} is not exported; there are ${[...exported.keys()].join(", ")}`];
  const unknown = [...matchers.map(({ label }) => label), ...groupedBy].filter((label) => !labels.has(label));
  const never = matchers.flatMap(({ label, op, value }) => {
    if (label === "job" || value === "" || !labels.has(label)) return [];
    if (label === "http_response_status_code") return /^[45]\.\.$/.test(value) ? [] : [`${label}${op}${value}`];
    const known = label === "error_type" ? errorTypesOf(metric) : (KNOWN[label] ?? []);
    return literals(op, value)
      .filter((literal) => !known.includes(literal))
      .map((literal) => `${metric}: ${label} is never ${literal}`);
  });
  return [
    ...unknown.map((label) => `${metric} has no label ${label}; it has ${[...labels.keys()].join(", ")}`),
    ...never,
  ];
};

const promql = (): readonly Query[] => [...queries.filter(({ language }) => language === "promql"), ...rules];

const selections = (query: Query): readonly Selection[] => selectionsOf(substituted(query.text));

describe("every PromQL expression of the dashboard and of the alert rules", () => {
  it("is read by Prometheus's grammar and asks for metrics, labels and values that are exported", () => {
    expect(promql().length).toBeGreaterThan(40);
    const faults = promql().flatMap((query) =>
      selections(query)
        .flatMap(faultsOf)
        .map((fault) => `${query.where}: ${fault}`),
    );
    expect(faults).toEqual([]);
  });

  it("of the dashboard is of the chosen service alone, and of a rule is of each service by itself", () => {
    for (const query of queries.filter(({ language }) => language === "promql"))
      for (const { matchers } of selections(query))
        expect(
          matchers.find(({ label }) => label === "job"),
          query.where,
        ).toBeDefined();
    for (const rule of rules)
      for (const { groupedBy } of selections(rule)) expect(groupedBy, rule.where).toContain("job");
  });

  it("is held to it: a misspelt metric, label, grouping and value are each found", () => {
    const faults = (text: string) => selectionsOf(text).flatMap(faultsOf).length;
    expect(faults("sum(rate(hango_turns_total[5m]))")).toBe(1);
    expect(faults('hango_guard_blocked_total{gaurd="cooldown"}')).toBe(1);
    expect(faults("sum by (model) (hango_guard_blocked_total)")).toBe(1);
    expect(faults('hango_context_compactions_total{outcome=~"committed|comitted"}')).toBe(1);
    expect(faults('hango_turn_duration_seconds_count{error_type="overloaded"}')).toBe(1);
    expect(faults('hango_turn_duration_seconds_count{error_type="provider_overloaded"}')).toBe(0);
    expect(() => selectionsOf("sum(rate(x[5m])")).toThrow("breaks off");
  });
});

it("every metric that hango has is on the dashboard", () => {
  const shown = new Set(
    queries
      .filter(({ language }) => language === "promql")
      .flatMap(selections)
      .map(({ metric }) => metric),
  );
  const unseen = (Object.keys(instruments) as MetricName[]).filter(
    (name) => !prometheusSeries(name, instruments[name]).some((series) => shown.has(series)),
  );
  expect(unseen).toEqual([]);
});

it("every name of hango's metrics is what Prometheus is told, and nothing else is exported", () => {
  const declared = (Object.keys(instruments) as MetricName[]).flatMap((name) =>
    prometheusSeries(name, instruments[name]),
  );
  expect([...exported.keys()].toSorted()).toEqual(declared.toSorted());
});

describe("every TraceQL query", () => {
  const NAMES = new Set<unknown>([...Object.values(genai), ...Object.values(hango), ...Object.values(http)]);
  const attributesOf = (text: string) => [...text.matchAll(/\bspan\.([\w.]+)/g)].map(([, name = ""]) => name);
  const traceql = () => queries.filter(({ language }) => language === "traceql");

  it("asks for attributes that spans really have", () => {
    const sent = new Set(collector.spans.flatMap(({ attributes }) => Object.keys(attributes)));
    expect(traceql().length).toBeGreaterThan(2);
    for (const { where, text } of traceql()) {
      expect(attributesOf(text).length, where).toBeGreaterThan(0);
      for (const name of attributesOf(text)) {
        expect(NAMES, where).toContain(name);
        expect(sent, where).toContain(name);
      }
    }
  });

  it("finds something among the spans of this run by each of its conditions", () => {
    for (const { where, text } of traceql()) {
      const conditions = [...text.matchAll(/span\.([\w.]+) = ("[^"]*"|true)/g)];
      expect(conditions.length, where).toBeGreaterThan(0);
      for (const [, name = "", value = ""] of conditions)
        expect(
          collector.spans.some(({ attributes }) => attributes[name] === JSON.parse(value)),
          `${where}: ${name} = ${value}`,
        ).toBe(true);
    }
  });
});
