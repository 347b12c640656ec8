/** The volatile inputs of a view (V8): what is read at the start of a turn and may differ from the turn before. */

import { sha256Hex } from "../protocol/sha256.ts";

/**
 * A hash of the inputs, by name, independent of the order in which they were read.
 * @returns 64 hex digits, or null when there are none
 */
export const volatileHash = async (inputs: ReadonlyMap<string, string>): Promise<string | null> => {
  if (inputs.size === 0) return null;
  const named = [...inputs].sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256Hex(JSON.stringify(named));
};
