/** The volatile inputs of a view (V8): what is read at the start of a turn and may differ from the turn before. */

const encoder = new TextEncoder();

/**
 * A hash of the inputs, by name, independent of the order in which they were read.
 * @returns 64 hex digits, or null when there are none
 */
export const volatileHash = async (inputs: ReadonlyMap<string, string>): Promise<string | null> => {
  if (inputs.size === 0) return null;
  const named = [...inputs].sort(([a], [b]) => (a < b ? -1 : 1));
  const digest = await crypto.subtle.digest("SHA-256", encoder.encode(JSON.stringify(named)));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
};
