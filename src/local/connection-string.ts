/** What the local tools need to know of a `postgres://` URL. */

/** Parses the URL; throws an error that does not repeat it, since it holds a password. */
export function parseConnectionString(connectionString: string): URL {
  const url = URL.parse(connectionString);
  if (url === null || !["postgres:", "postgresql:"].includes(url.protocol)) {
    throw new Error("The connection string is not of the form postgres://user:password@host/database.");
  }
  return url;
}

/**
 * The same string with `sslmode` spelled as what the driver does anyway: for `prefer`, `require` and `verify-ca` it
 * verifies the certificate in full, and warns on standard error that this is so.
 */
export function withVerifiedTls(connectionString: string): string {
  return connectionString.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, "$1verify-full");
}

/** Whether the host is Neon's: it answers its own protocol over HTTP. */
export function isNeonHost(hostname: string): boolean {
  return hostname.endsWith(".neon.tech");
}

/** Whether the host is Neon's pooler, which is for run time; migrations want the direct host. */
export function isPoolerHost(hostname: string): boolean {
  return hostname.split(".")[0]?.endsWith("-pooler") ?? false;
}

/** `text` without the connection string's password, in whichever spelling it occurs. */
export function withoutPassword(text: string, connectionString: string): string {
  const password = URL.parse(connectionString)?.password ?? "";
  if (password === "") return text.replaceAll(connectionString, "[connection string]");
  let clean = text.replaceAll(connectionString, "[connection string]").replaceAll(password, "[password]");
  try {
    clean = clean.replaceAll(decodeURIComponent(password), "[password]");
  } catch {
    // A stray percent sign: the password has only the one spelling.
  }
  return clean;
}
