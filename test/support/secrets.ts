/** Secrets of every kind that is known, and identifiers that must outlive them (S6). */

/** Made of parts, so that no scanner takes this file for a leak. */
const join = (...parts: readonly string[]): string => parts.join("");

export interface Planted {
  readonly kind: string;
  /** What must not be seen again. */
  readonly secret: string;
  /** As somebody would write it, the secret in it. */
  readonly text: string;
  /** Identifiers in the text beside the secret, which stay. */
  readonly beside: readonly string[];
  /** Name and value as the input of a tool, where the name is what tells. */
  readonly named?: Readonly<Record<string, string>>;
}

const plant = (
  kind: string,
  secret: string,
  around: (secret: string) => string = (text) => `use ${text} here`,
  beside: readonly string[] = [],
): Planted => ({ kind, secret, text: around(secret), beside });

/** Of one kind each; the body differs, so that a leak says whose it is. */
export const PLANTED: readonly Planted[] = [
  plant("anthropic", join("sk-", "ant-api03-", "Qf3dEf6hIj9kLm2nOp5qRs8tUv1wXy4a")),
  plant("openai", join("sk-", "proj-", "Wg3dEf6hIj9kLm2nOp5qRs8tUv1wXy4b")),
  plant(
    "github",
    join("gh", "p_", "Eh3dEf6hIj9kLm2nOp5qRs8tUv1wXy4c"),
    (s) => `git clone https://${s}@github.com/acme/billing.git`,
    ["github.com/acme/billing.git"],
  ),
  plant("gitlab", join("gl", "pat-", "Ri3dEf6hIj9kLm2nOp5d")),
  plant("slack", join("xo", "xb-", "223456789012-", "Tj3dEf6hIj9kLm2nOp5e")),
  plant("aws id", join("AK", "IA", "IOSFODNN7EXAMPLE"), (s) => `aws_access_key_id = ${s}`),
  plant(
    "aws secret",
    join("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYEXAMPLEKEY"),
    (s) => `[default]\naws_secret_access_key = ${s}\nregion = eu-west-1`,
    ["eu-west-1"],
  ),
  plant("google", join("AI", "za", "Yk3dEf6hIj9kLm2nOp5qRs8tUv1wXy4fabc")),
  plant("hugging face", join("h", "f_", "Ul3dEf6hIj9kLm2nOp5qRs8tUv1wXy4g")),
  plant(
    "npm",
    join("np", "m_", "Im3dEf6hIj9kLm2nOp5qRs8tUv1wXy4habcd"),
    (s) => `//registry.npmjs.org/:_authToken=${s}`,
    ["registry.npmjs.org"],
  ),
  plant("stripe", join("sk", "_live_", "On3dEf6hIj9kLm2nOp5qRs8tUv1wXy4i")),
  plant("sendgrid", join("S", "G.", "Po3dEf6hIj9kLm2nOp5q", ".", "Rs8tUv1wXy4jAb3dEf6hIj9kLm2n")),
  plant("hango", join("hango", "_", "Ap3dEf6hIj9kLm2nOp5qRs8tUv1wXy4kAb3dEf6h")),
  plant("jwt", join("ey", "JhbGciOiJIUzI1NiJ9", ".", "eyJzdWIiOiJTcTEyMzQifQ", ".", "Dr3dEf6hIj9kLm2nOp5q")),
  plant("pem", "MIIEpAIBAAKCAQEAzS3dEf6hIj9kLm2nOp5qRs8tUv1wXy4lAb3dEf6hIj9kLm2n", (s) =>
    join(
      "-----BEGIN RSA ",
      "PRIVATE KEY-----\n",
      s,
      "\nFt3dEf6hIj9kLm2nOp5qRs8tUv1wXy4m\n-----END RSA ",
      "PRIVATE KEY-----",
    ),
  ),
  plant(
    "bearer",
    "Gu3dEf6h.Ij9kLm2n-Op5q",
    (s) => `curl -H 'Authorization: Bearer ${s}' https://api.acme.test/v2/orders/8812`,
    ["https://api.acme.test/v2/orders/8812"],
  ),
  plant("basic", "YXBwOkh2M2RFZjZoSWo5aw==", (s) => `authorization: Basic ${s}`),
  plant("url", "Jw3dEf6hIj9k", (s) => `DATABASE_URL=postgres://app:${s}@db.acme.test:5432/main`, [
    "db.acme.test:5432/main",
  ]),
  plant("encoded url", "Kx3dEf6hIj9k", (s) => `?target=https%3A%2F%2Fapp%3A${s}%40db.acme.test%2Fmain`, [
    "db.acme.test",
  ]),
  plant("cookie", "Ly3dEf6hIj9kLm2n", (s) => `Set-Cookie: sid=${s}; Path=/; HttpOnly`),
  {
    ...plant("api key", "Zz3dEf6hIj9kLm2n", (s) => `api_key=${s}`),
    named: { api_key: "Zz3dEf6hIj9kLm2n", file_path: "/srv/billing/keys.ts" },
  },
  { ...plant("password", "Xa3dEf6hIj9k", (s) => `DB_PASSWORD=${s}`), named: { dbPassword: "Xa3dEf6hIj9k" } },
  {
    ...plant("header", "Cb3dEf6hIj9kLm2n", (s) => `-H 'X-Api-Key: ${s}'`),
    named: { "X-Api-Key": "Cb3dEf6hIj9kLm2n" },
  },
  {
    ...plant("client secret", "Vc3dEf6hIj9kLm2n", (s) => `{"client_id":"billing-web-7","client_secret":"${s}"}`, [
      "billing-web-7",
    ]),
    named: { clientSecret: "Vc3dEf6hIj9kLm2n" },
  },
  plant("curl user", "Bd3dEf6hIj9k", (s) => `curl -u deploy:${s} https://ci.acme.test/job/41`, [
    "https://ci.acme.test/job/41",
  ]),
  plant("query", "Ne3dEf6hIj9kLm2n", (s) => `https://files.acme.test/r/77?sig=${s}&page=2`, ["files.acme.test/r/77"]),
  plant("web key", "Mf3dEf6hIj9kLm2nOp5qRs8tUv1wXy4n", (s) => `{"kty":"EC","crv":"P-256","d":"${s}"}`),
];

/** What an index names, and looks like a secret to whoever looks no closer. */
export const IDENTIFIERS: readonly string[] = [
  "/srv/billing/src/token-store.ts",
  "/etc/secrets/readme.md",
  "3f786850e387550fdab836ed7e6dc881de23001b",
  "550e8400-e29b-41d4-a716-446655440000",
  "toolu_01A09q90qw90lq917835lq9",
  "msg_01XFDUDYJgAACzvnptvVoYEL",
  "https://acme.test/docs/secrets.html?page=2",
  "TS2345",
  "ECONNREFUSED",
  "getTokenFromSession",
  "PaymentDeclinedError",
  "INV-2024-00917",
];

/** All of it in one text, a line each. */
export const everySecret = (): string => PLANTED.map(({ text }) => text).join("\n");

/** Which kinds a text still shows. */
export const leaked = (text: string): readonly string[] =>
  PLANTED.filter(({ secret }) => text.includes(secret)).map(({ kind }) => kind);

/** Whether a text shows a piece of a secret: a cut in the middle leaves two. */
export const leaksPiece = (text: string, { secret }: Planted): boolean => {
  const chars = Math.floor(secret.length * 0.4);
  return text.includes(secret.slice(0, chars)) || text.includes(secret.slice(-chars));
};
