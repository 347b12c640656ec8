/** Text that callers give: bounded, and without NUL, which PostgreSQL does not store. */
import { z } from "@hono/zod-openapi";

const NUL = "\u0000";

/** A text of at most so many characters (UTF-16 units). */
export const boundedText = (maxChars: number, minChars = 0) =>
  z
    .string()
    .min(minChars)
    .max(maxChars)
    .refine((text) => !text.includes(NUL), "must not contain NUL characters")
    // Query strings may carry lone surrogates only as replacement characters already; bodies were repaired at the door.
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode");

/** Whether a JSON value holds NUL in a string or a key: `jsonb` refuses it. */
export const holdsNul = (value: unknown): boolean => {
  if (typeof value === "string") return value.includes(NUL);
  if (Array.isArray(value)) return value.some(holdsNul);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, item]) => key.includes(NUL) || holdsNul(item));
};

/** A moment, RFC 3339, within the years that a date column and people mean. */
export const timestamp = z.iso
  .datetime({ offset: true, error: "expected a time like 2026-11-30T12:00:00Z" })
  .refine((text) => /^(19|2\d)\d\d/.test(text) && !Number.isNaN(Date.parse(text)), "expected a year from 1900 to 2999");
