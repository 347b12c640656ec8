/** The one place where errors become responses. */
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { z } from "zod";
import { postgresFault, StoreUnavailable } from "../store/errors.ts";
import { isBucketUnavailable } from "../turns/failure.ts";
import type { AppEnv } from "./env.ts";
import { ApiError, type ErrorCode, errorBody, errorKinds } from "./errors.ts";

/** `tools[0].url`: a place in a JSON document, as one would write it in code. */
export const jsonPath = (path: readonly PropertyKey[]): string =>
  path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    const name = String(part);
    if (!/^[A-Za-z_$][\w$]*$/.test(name)) return `${text}[${JSON.stringify(name)}]`;
    return text === "" ? name : `${text}.${name}`;
  }, "");

interface FlatIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Issues in one list. Of a union, the branch that came closest: the one whose `type` was right, else the one with the fewest issues. */
const flatten = (issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[]): readonly FlatIssue[] =>
  issues.flatMap((issue): readonly FlatIssue[] => {
    const path = [...base, ...issue.path];
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => ({ path: [...path, key], message: "unknown field" }));
    if (issue.code !== "invalid_union" || issue.errors.length === 0) return [{ path, message: lower(issue.message) }];
    const typed = issue.errors.filter((branch) => !branch.some(failsAtType));
    const closest = (typed.length > 0 ? typed : issue.errors).toSorted((a, b) => a.length - b.length)[0] ?? [];
    if (typed.length > 0) return flatten(closest, path);
    const place = closest[0]?.path ?? [];
    return [{ path: [...path, ...place], message: expectedAt(issue.errors, place) }];
  });

/** What the branches of a union expect in one place; what another one says as well is not said twice. */
const expectedAt = (branches: readonly (readonly z.core.$ZodIssue[])[], place: readonly PropertyKey[]): string => {
  const there = branches.flat().filter(({ path }) => jsonPath(path) === jsonPath(place));
  const all = [...new Set(there.map(({ message }) => lower(message)))];
  const isSaidBy = (one: string, other: string): boolean =>
    one !== other && other.includes(one.replace(/^expected /, "").replace(/, received .*$/, ""));
  return all.filter((one) => !all.some((other) => isSaidBy(one, other))).join("; or ");
};

/** The branch is not the one that was meant: its `type` is another, or the value is of another kind altogether. */
const failsAtType = ({ path, code }: z.core.$ZodIssue): boolean =>
  path.length === 0 ? code === "invalid_type" || code === "invalid_value" : path.length === 1 && path[0] === "type";

const lower = (message: string): string =>
  message.replace(/^Invalid input: /, "").replace(/^(expected .*), received undefined$/, "is missing; $1");

/** At most so many problems are listed in a message. */
const MAX_LISTED = 5;

/**
 * An `invalid_request` with the JSON path of the first problem and what was expected there; the message lists the others too.
 * @param where what the paths are relative to, when that is not the body
 */
export const invalidInput = (error: z.core.$ZodError, where?: string): ApiError => {
  const issues = flatten(error.issues, []);
  const lines = issues
    .slice(0, MAX_LISTED)
    .map(({ path, message }) => `${jsonPath(path) || (where ?? "body")}: ${message}`);
  const more = issues.length > MAX_LISTED ? `; and ${issues.length - MAX_LISTED} more` : "";
  const param = jsonPath(issues[0]?.path ?? []) || (where ?? "body");
  return new ApiError("invalid_request", `${lines.join("; ")}${more}`, { param });
};

const fromStatus = (status: number): ApiError | undefined => {
  if (status === 400) return new ApiError("invalid_request", "The request could not be read.");
  if (status === 413) return new ApiError("payload_too_large", "The body is too large.");
  if (status === 415) {
    const message =
      "The body has a content type that this operation does not take; send `Content-Type: application/json`.";
    return new ApiError("unsupported_media_type", message, { param: "Content-Type" });
  }
  return undefined;
};

const known = (error: unknown): ApiError | undefined => {
  if (error instanceof ApiError) return error;
  if (error instanceof HTTPException) return fromStatus(error.status);
  if (error instanceof StoreUnavailable) {
    return new ApiError("unavailable", "The database cannot be reached at the moment.", { retryAfterSeconds: 1 });
  }
  if (isBucketUnavailable(error)) {
    return new ApiError("unavailable", "The session's files cannot be reached at the moment.", {
      retryAfterSeconds: 1,
    });
  }
  return undefined;
};

/** What may be logged of an unexpected error: never its message, which may hold SQL, parameters or content. */
const safeFields = (error: unknown) => ({
  error: error instanceof Error ? error.name : typeof error,
  sqlstate: postgresFault(error)?.code,
  stack:
    error instanceof Error
      ? error.stack
          ?.split("\n")
          .filter((line) => /^\s+at /.test(line))
          .slice(0, 8)
          .join("\n")
      : undefined,
});

/** Headers that belong to an error. */
export const errorHeaders = (error: ApiError): Record<string, string> => ({
  "Content-Type": "application/json",
  ...(error.details.retryAfterSeconds === undefined ? {} : { "Retry-After": String(error.details.retryAfterSeconds) }),
  ...(error.code === "unauthenticated" ? { "WWW-Authenticate": 'Bearer realm="hango"' } : {}),
  ...error.details.headers,
});

/** The code of an error as a run records it; see `docs/errors.md`. */
export const statusOf = (code: ErrorCode): number => errorKinds[code].status;

/** Answers any error. What nobody knows is logged without content and answered as `internal`. */
export const respondToError = (error: unknown, c: Context<AppEnv>): Response => {
  const api = known(error) ?? new ApiError("internal", "Something went wrong inside hango.");
  const requestId = c.get("requestId") ?? "";
  c.set("errorCode", api.code);
  if (api.code === "internal") {
    const deps: AppEnv["Variables"]["deps"] | undefined = c.get("deps");
    deps?.log.error("request failed", { request_id: requestId, ...safeFields(error) });
  }
  return new Response(JSON.stringify(errorBody(api, requestId)), {
    status: errorKinds[api.code].status,
    headers: errorHeaders(api),
  });
};
