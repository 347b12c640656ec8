/** What a sender posted, read within limits. */
import { jsonDepth } from "../protocol/json-text.ts";
import { isSecretName, redact } from "../protocol/redact.ts";

/** Largest body, in bytes: no sender of the supported schemes posts more but GitHub, whose own limit is 25 MB and whose bodies seldom have 100 KB. */
export const MAX_HOOK_BYTES = 1_048_576;

/** Deepest nesting; what services send has under 20 levels. */
export const MAX_DEPTH = 64;

/** Most members and items together: a body of 1 MB can hold half a million. */
export const MAX_VALUES = 100_000;

export type PayloadProblem = "not_utf8" | "empty" | "too_deep" | "too_many_values" | "not_json";

export type PayloadOutcome =
  | { readonly kind: "read"; readonly payload: unknown; readonly text: string }
  | { readonly kind: "problem"; readonly problem: PayloadProblem };

const problem = (name: PayloadProblem): PayloadOutcome => ({ kind: "problem", problem: name });

export type PayloadForm = "json" | "form";

/** What kind of body a content type announces; undefined for one that is not taken. */
export const formOf = (contentType: string, takesForms: boolean): PayloadForm | undefined => {
  if (/^application\/([a-z0-9.-]+\+)?json\s*(;|$)/i.test(contentType)) return "json";
  return takesForms && /^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType) ? "form" : undefined;
};

/** Commas and opening brackets outside of strings bound how many values a text can hold; strings count too, which errs on the safe side. */
const valuesAtMost = (text: string): number => {
  let count = 1;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      for (at += 1; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at += 1;
    } else if (unit === 0x2c || unit === 0x5b || unit === 0x7b) count += 1;
  }
  return count;
};

const parse = (json: string): PayloadOutcome => {
  if (json.trim() === "") return problem("empty");
  if (jsonDepth(json) > MAX_DEPTH) return problem("too_deep");
  if (valuesAtMost(json) > MAX_VALUES) return problem("too_many_values");
  try {
    return { kind: "read", payload: JSON.parse(json), text: json };
  } catch {
    return problem("not_json");
  }
};

/**
 * The payload of a body. Of a form it is the JSON of its `payload` (GitHub, Slack's interactions), or else its fields (Slack's commands).
 * Depth and number of values are checked before anything is parsed.
 */
export const readPayload = (body: Uint8Array, form: PayloadForm): PayloadOutcome => {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return problem("not_utf8");
  }
  if (form === "json") return parse(text);
  const fields = new URLSearchParams(text);
  const inner = fields.get("payload");
  if (inner !== null) return parse(inner);
  const payload = Object.fromEntries(fields);
  return Object.keys(payload).length === 0 ? problem("empty") : parse(JSON.stringify(payload));
};

/** Names of headers that hold secrets or signatures, say where the request went through, or are about the transport alone. */
const UNKEPT =
  /authorization|cookie|signature|secret|token|password|api-?key|^cf-|^x-forwarded|^x-real-ip|^forwarded$|^mf-|^(host|connection|accept|accept-encoding|content-length|transfer-encoding|via)$/;

const MAX_HEADERS = 40;
const MAX_HEADER_CHARS = 500;

/** The headers of a delivery that are kept: those that say what it is. @param unkept further names, lower case */
export const keptHeaders = (
  headers: Readonly<Record<string, string>>,
  unkept: readonly string[],
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => !UNKEPT.test(name) && !isSecretName(name) && !unkept.includes(name))
      .slice(0, MAX_HEADERS)
      .map(([name, value]) => [
        name,
        redact(value).text.slice(0, MAX_HEADER_CHARS).replaceAll("\u0000", "").toWellFormed(),
      ]),
  );
