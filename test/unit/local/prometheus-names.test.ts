/** The names that a metric has in Prometheus, against examples of the specification and of the Collector's translator. */
import { describe, expect, it } from "vitest";
import { prometheusLabel, prometheusName, prometheusSeries } from "../../../src/local/prometheus-names.ts";
import { instruments, type MetricName } from "../../../src/telemetry/instruments.ts";

describe("prometheusName", () => {
  it.each([
    ["hango.turn.duration", "s", "histogram", "hango_turn_duration_seconds"],
    ["gen_ai.client.token.usage", "{token}", "histogram", "gen_ai_client_token_usage"],
    ["hango.cache.read_ratio", "1", "histogram", "hango_cache_read_ratio"],
    ["hango.share", "1", "histogram", "hango_share"],
    ["hango.usage.cost", "{USD}", "counter", "hango_usage_cost_total"],
    ["hango.db.round_trips", "{round_trip}", "histogram", "hango_db_round_trips"],
    ["system.io", "By", "counter", "system_io_bytes_total"],
    ["jobs.total.failed", "{job}", "counter", "jobs_failed_total"],
    ["time.seconds.spent", "s", "histogram", "time_seconds_spent"],
    ["requests.per.try", "1", "counter", "requests_per_try_total"],
    ["a--b..c", "", "histogram", "a_b_c"],
  ] as const)("%s in %j, a %s, is %s", (name, unit, kind, expected) => {
    expect(prometheusName(name, { unit, kind })).toBe(expected);
  });

  it("refuses a unit that it does not know, and says which it knows", () => {
    expect(() => prometheusName("a.b", { unit: "furlong", kind: "counter" })).toThrow(
      'a.b: the unit "furlong" has no Prometheus name here; known are 1, s, ms, By and {things}',
    );
  });
});

it("prometheusLabel: what is no letter, digit or underscore becomes one; a digit does not begin a label", () => {
  expect(["gen_ai.request.model", "error.type", "guard", "1st"].map(prometheusLabel)).toEqual([
    "gen_ai_request_model",
    "error_type",
    "guard",
    "key_1st",
  ]);
});

it("prometheusSeries: a counter is one series, a histogram three", () => {
  expect(prometheusSeries("hango.queue.dead_letters", { unit: "{message}", kind: "counter" })).toEqual([
    "hango_queue_dead_letters_total",
  ]);
  expect(prometheusSeries("hango.turn.overhead", { unit: "s", kind: "histogram" })).toEqual([
    "hango_turn_overhead_seconds_bucket",
    "hango_turn_overhead_seconds_sum",
    "hango_turn_overhead_seconds_count",
  ]);
});

it("no two metrics have one name", () => {
  const names = (Object.keys(instruments) as MetricName[]).flatMap((name) => prometheusSeries(name, instruments[name]));
  expect(new Set(names).size).toBe(names.length);
});
