/** SHA-256 as 64 hex digits. Text is hashed as UTF-8. */
export const sha256Hex = async (content: Uint8Array | string): Promise<string> => {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
};
