/**
 * What Prometheus calls our metrics and their attributes: the translation of the OpenTelemetry Collector's exporters and of Prometheus's own OTLP receiver
 * ("UnderscoreEscapingWithSuffixes"), for the kinds and units that hango has. Written once, for the table of docs/telemetry.md and for the tests of the
 * dashboard and the alert rules.
 */
import type { Instrument } from "../telemetry/instruments.ts";

/** Units that become words. One in braces names what is counted and is dropped, and so is "1": "ratio" is added to gauges alone. */
const UNIT_WORDS: Readonly<Record<string, string>> = { s: "seconds", ms: "milliseconds", By: "bytes", "1": "" };

/** @param attribute `gen_ai.request.model` @returns `gen_ai_request_model` */
export const prometheusLabel = (attribute: string): string => {
  const label = attribute.replaceAll(/[^a-zA-Z0-9_]/g, "_");
  return /^[0-9]/.test(label) ? `key_${label}` : label;
};

/**
 * The name of a metric's family: `hango.turn.duration` in s is `hango_turn_duration_seconds`, and a counter ends in `_total`. A word that the name has
 * already is not added again.
 * @throws Error where the unit is one that this table does not know
 */
export const prometheusName = (name: string, { unit, kind }: Pick<Instrument, "unit" | "kind">): string => {
  const unitWord = /^(\{[^{}]*\})?$/.test(unit) ? "" : UNIT_WORDS[unit];
  if (unitWord === undefined) {
    const known = Object.keys(UNIT_WORDS).join(", ");
    throw new Error(`${name}: the unit "${unit}" has no Prometheus name here; known are ${known} and {things}`);
  }
  const words = name.split(/[^a-zA-Z0-9:]+/).filter((word) => word !== "");
  const withUnit = unitWord === "" || words.includes(unitWord) ? words : [...words, unitWord];
  if (kind === "histogram") return withUnit.join("_");
  return [...withUnit.filter((word) => word !== "total"), "total"].join("_");
};

/** Every series that one metric becomes: a counter one, a histogram three. */
export const prometheusSeries = (name: string, instrument: Pick<Instrument, "unit" | "kind">): readonly string[] => {
  const family = prometheusName(name, instrument);
  return instrument.kind === "counter" ? [family] : [`${family}_bucket`, `${family}_sum`, `${family}_count`];
};
