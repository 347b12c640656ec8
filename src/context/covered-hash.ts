/** What a generation covers, as one value to compare and to keep in its receipt (G8). */
import { sha256Hex } from "../protocol/sha256.ts";
import { rangesText, type SeqRange } from "./view-state.ts";

/** SHA-256 of ranges, in hex. */
export const coveredHash = (covered: readonly SeqRange[]): Promise<string> => sha256Hex(rangesText(covered));
