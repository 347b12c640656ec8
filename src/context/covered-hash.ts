/** What a generation covers, as one value to compare and to keep in its receipt (G8). */
import { rangesText, type SeqRange } from "./view-state.ts";

const encoder = new TextEncoder();

/** SHA-256 of ranges, in hex. */
export const coveredHash = async (covered: readonly SeqRange[]): Promise<string> => {
  const digest = await crypto.subtle.digest("SHA-256", encoder.encode(rangesText(covered)));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
};
