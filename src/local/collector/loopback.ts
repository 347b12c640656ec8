/** Who may ask: names of this machine alone. A page elsewhere that has its own name resolve to this machine sends that name (DNS rebinding). */

const NAMES: ReadonlySet<string> = new Set(["127.0.0.1", "localhost", "[::1]"]);

/** Whether a `Host` header, with or without a port, names this machine. */
export const isLoopbackHost = (host: string | undefined): boolean => {
  if (host === undefined || !URL.canParse(`http://${host}`)) return false;
  return NAMES.has(new URL(`http://${host}`).hostname);
};
