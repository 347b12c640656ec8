/** Conditions and ranges of HTTP (RFC 9110, sections 13 and 14), as far as files need them. */
import { invalid } from "./errors.ts";

/** `*`, or entity tags without their quotes. Weak tags are left out: they never match in a strong comparison. */
export type EntityTags = "*" | readonly string[];

/** Reads `If-Match` or `If-None-Match`. @throws ApiError `invalid_request` for what is neither `*` nor a list of tags */
export const entityTagsOf = (headers: Headers, name: "If-Match" | "If-None-Match"): EntityTags | null => {
  const given = headers.get(name)?.trim();
  if (given === undefined) return null;
  if (given === "*") return "*";
  if (given.length > 2_000 || !/^(W\/)?"[^"]*"(\s*,\s*(W\/)?"[^"]*")*$/.test(given)) {
    throw invalid(name, 'expected * or a list of entity tags in quotes, like "abc"');
  }
  return [...given.matchAll(/(W\/)?"([^"]*)"/g)].flatMap(([, weak, tag = ""]) => (weak === undefined ? [tag] : []));
};

/** Whether a file with this tag is one of those that are meant. */
export const tagsInclude = (tags: EntityTags, etag: string): boolean => tags === "*" || tags.includes(etag);

export type RangeRequest =
  | { readonly kind: "whole" }
  | { readonly kind: "part"; readonly offsetBytes: number; readonly lengthBytes: number }
  | { readonly kind: "unsatisfiable" };

/**
 * The part of a file that `Range` asks for. What is no single range of bytes is ignored, as the RFC allows, and so is a range whose
 * `If-Range` names another version.
 */
export const rangeOf = (
  headers: Headers,
  file: { readonly sizeBytes: number; readonly etag: string },
): RangeRequest => {
  const parsed = /^bytes=\s*(\d{0,15})\s*-\s*(\d{0,15})\s*$/.exec(headers.get("Range") ?? "");
  const [, first = "", last = ""] = parsed ?? [];
  if (parsed === null || (first === "" && last === "")) return { kind: "whole" };
  const ifRange = headers.get("If-Range");
  if (ifRange !== null && ifRange !== `"${file.etag}"`) return { kind: "whole" };
  const { sizeBytes } = file;
  const offsetBytes = first === "" ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === "" || last === "" ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
  if (first !== "" && last !== "" && Number(last) < Number(first)) return { kind: "whole" };
  if (offsetBytes >= sizeBytes || (first === "" && Number(last) === 0)) return { kind: "unsatisfiable" };
  return { kind: "part", offsetBytes, lengthBytes: end - offsetBytes };
};
