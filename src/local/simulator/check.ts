/** The small checks that every part of request validation is made of; each failure is a 400 that names its path. */
import { invalid } from "./errors.ts";
import type { Json, JsonObject } from "./json.ts";
import { isArray, isObject } from "./json.ts";

export const at = (path: string, key: string | number): string => (path === "" ? String(key) : `${path}.${key}`);

export const expectObject = (value: Json | undefined, path: string): JsonObject => {
  if (value === undefined) throw invalid(path, "Field required");
  if (!isObject(value)) throw invalid(path, "Input should be a valid dictionary");
  return value;
};

export const expectArray = (value: Json | undefined, path: string): readonly Json[] => {
  if (value === undefined) throw invalid(path, "Field required");
  if (!isArray(value)) throw invalid(path, "Input should be a valid list");
  return value;
};

export const expectString = (value: Json | undefined, path: string): string => {
  if (value === undefined) throw invalid(path, "Field required");
  if (typeof value !== "string") throw invalid(path, "Input should be a valid string");
  return value;
};

export const expectBoolean = (value: Json | undefined, path: string): boolean => {
  if (typeof value !== "boolean") throw invalid(path, "Input should be a valid boolean");
  return value;
};

export const expectInteger = (value: Json | undefined, path: string, least: number): number => {
  if (value === undefined) throw invalid(path, "Field required");
  if (typeof value !== "number" || !Number.isInteger(value)) throw invalid(path, "Input should be a valid integer");
  if (value < least) throw invalid(path, `Input should be greater than or equal to ${least}`);
  return value;
};

export const expectOneOf = (value: Json | undefined, path: string, allowed: readonly string[]): string => {
  if (value === undefined) throw invalid(path, "Field required");
  if (typeof value !== "string" || !allowed.includes(value)) {
    throw invalid(path, `Input should be ${allowed.map((one) => `'${one}'`).join(" or ")}`);
  }
  return value;
};

export const expectPattern = (value: Json | undefined, path: string, pattern: RegExp): string => {
  const text = expectString(value, path);
  if (!pattern.test(text)) throw invalid(path, `String should match pattern '${pattern.source}'`);
  return text;
};

/** Unknown fields are errors. */
export const expectKeys = (value: JsonObject, path: string, allowed: readonly string[]): void => {
  for (const key of Object.keys(value)) {
    if (!allowed.includes(key)) throw invalid(at(path, key), "Extra inputs are not permitted");
  }
};

/** A text block's text: not empty and not only white space. */
export const expectText = (value: Json | undefined, path: string): string => {
  const text = expectString(value, path);
  if (text === "") throw invalid(path, "text content blocks must be non-empty");
  if (text.trim() === "") throw invalid(path, "text content blocks must contain non-whitespace text");
  return text;
};

/** A `cache_control`; null is none. */
export const expectCacheControl = (value: Json | undefined, path: string): void => {
  if (value === undefined || value === null) return;
  const mark = expectObject(value, path);
  expectKeys(mark, path, ["type", "ttl"]);
  expectOneOf(mark.type, at(path, "type"), ["ephemeral"]);
  if (mark.ttl !== undefined) expectOneOf(mark.ttl, at(path, "ttl"), ["5m", "1h"]);
};
