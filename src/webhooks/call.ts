/** The HTTP calls that a trigger makes: its reply to the sender, and its immediate acknowledgement. */
import { checkOutboundUrl } from "../protocol/outbound-url.ts";
import { literalStart, render, templateNames, templateProblem } from "./template.ts";
import type { TriggerCall } from "./trigger-config.ts";

/** Longest wait for the receiver, in ms. */
const TIMEOUT_MS = 15_000;

/** Longest text of a call, in characters; a model's answer has at most some 500,000. */
const MAX_BODY_CHARS = 1_000_000;
const MAX_URL_CHARS = 2_048;

export interface CallRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The literal scheme and host that a template's URL begins with; null where (a part of) them comes from the event. */
const literalOrigin = (template: string): string | null => {
  const start = literalStart(template);
  const ended = start === template ? /^https?:\/\/[^/?#]+/ : /^https?:\/\/[^/?#]+(?=[/?#])/;
  return ended.exec(start)?.[0] ?? null;
};

const templatesIn = (value: unknown): readonly string[] => {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(templatesIn);
};

/** What is wrong with a call's settings, and where; null when nothing is. */
export const callProblem = (
  call: TriggerCall,
  allowPrivate: boolean,
): { readonly path: string; readonly message: string } | null => {
  const url = templateProblem(call.url);
  if (url !== null) return { path: "url", message: url };
  const origin = literalOrigin(call.url);
  if (templateNames(call.url).length === 0) {
    const reason = checkOutboundUrl(call.url, allowPrivate);
    if (reason !== null) return { path: "url", message: reason };
  } else if (origin !== null) {
    const reason = checkOutboundUrl(origin, allowPrivate);
    if (reason !== null) return { path: "url", message: reason };
  } else if (!/^\s*\{\{[^{}]+\}\}\s*$/.test(call.url)) {
    return { path: "url", message: "expected https://, a host and then tags, or one tag that is the whole URL" };
  } else if (Object.keys(call.headers ?? {}).length > 0) {
    // Whoever sends the event would learn them.
    return { path: "headers", message: "must be empty where the event says what is called" };
  }
  for (const template of templatesIn(call.body)) {
    const message = templateProblem(template);
    if (message !== null) return { path: "body", message };
  }
  return null;
};

/** A value within a path: a slash may separate two parts of it, nothing of it ends the path. */
const inPath = (value: string): string => encodeURIComponent(value.toWellFormed()).replaceAll("%2F", "/");

const urlOf = (template: string, view: object): string => {
  const whole = literalOrigin(template) === null;
  return render(template, view, { maxChars: MAX_URL_CHARS, write: whole ? (value) => value.trim() : inPath });
};

/** Whether a path has a part that leads out of where it stands: a value must not choose another endpoint of the host. */
const climbs = (path: string): boolean =>
  (path.split(/[?#]/)[0] ?? "").split(/[/\\]/).some((part) => /^(\.|%2e){1,2}$/i.test(part));

const renderAll = (value: unknown, view: object): unknown => {
  if (typeof value === "string") return render(value, view, { maxChars: MAX_BODY_CHARS, write: (text) => text });
  if (Array.isArray(value)) return value.map((item) => renderAll(item, view));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, renderAll(member, view)]));
};

/**
 * The call for an event.
 * @param fallback the body where the trigger names none
 * @returns null where the event leads to a URL that is not called: a private one, or one outside of what the template names
 * @throws Error when a template cannot be rendered
 */
export const callOf = (
  call: TriggerCall,
  view: object,
  fallback: unknown,
  allowPrivate: boolean,
): CallRequest | null => {
  const url = urlOf(call.url, view);
  if (checkOutboundUrl(url, allowPrivate) !== null) return null;
  const origin = literalOrigin(call.url);
  if (origin !== null && (new URL(url).origin !== new URL(origin).origin || climbs(url.slice(origin.length))))
    return null;
  const body = call.body === undefined ? fallback : renderAll(call.body, view);
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return {
    url,
    headers: {
      "content-type": typeof body === "string" ? "text/plain; charset=utf-8" : "application/json",
      "user-agent": "hango",
      ...lowerCased(call.headers ?? {}),
    },
    body: text.toWellFormed(),
  };
};

const lowerCased = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

export type CallOutcome = { readonly kind: "ok" } | { readonly kind: "failed"; readonly status: number | null };

/** Makes the call. A redirect is not followed: it could lead to where the URL itself may not. Never throws. */
export const makeCall = async (
  fetcher: typeof fetch,
  { url, headers, body }: CallRequest,
  idempotencyKey: string,
): Promise<CallOutcome> => {
  try {
    const response = await fetcher(url, {
      method: "POST",
      redirect: "manual",
      headers: { "idempotency-key": idempotencyKey, ...headers },
      body,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body?.cancel();
    return response.ok ? { kind: "ok" } : { kind: "failed", status: response.status };
  } catch {
    return { kind: "failed", status: null };
  }
};
