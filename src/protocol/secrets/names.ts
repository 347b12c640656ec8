/** Names whose values are secrets: `DB_PASSWORD`, `clientSecret`, `X-Api-Key`, and not `max_tokens`, `page_token`, `primary_key`. */

const ALWAYS = new Set([
  "password",
  "passwords",
  "passwd",
  "passphrase",
  "passcode",
  "pwd",
  "secret",
  "secrets",
  "credential",
  "credentials",
  "authorization",
  "cookie",
  "cookies",
  "bearer",
  "jwt",
  "sig",
]);

/** Written as one word: `apikey`, `PGPASSWORD`, `authtoken`. */
const JOINED =
  /(?:password|passwd|passphrase|secret|(?:api|secret|access|private|signing|encryption)key|(?:api|auth|access|refresh|session|bearer|csrf)token)s?$/;

const KEY_OF = new Set(
  `api access secret private signing encryption decryption auth master account subscription shared storage service deploy ssh pgp gpg hmac jwt
   webhook client app application consumer admin role functions license licence hango stripe openai anthropic sendgrid azure gemini openrouter
   mistral groq datadog`.split(/\s+/),
);
const KEYS_OF = new Set(["api", "access", "secret", "private", "signing", "encryption"]);

/** Tokens of a text or of a list's pages, which open nothing. */
const PLAIN_TOKEN_OF = new Set(
  `page next previous prev continuation sync eos bos pad unk mask sep cls stop special cancel cancellation per max min total first last current
   each cost price input output`.split(/\s+/),
);
const TOKENS_OF = new Set(["access", "refresh", "auth", "api", "bearer", "session", "csrf", "secret", "personal"]);
const PASS_OF = new Set(
  "db database user smtp mysql pg redis admin root mail ftp http proxy auth login sudo".split(" "),
);
const PAT_OF = new Set(["github", "gitlab", "azure", "devops", "personal"]);

/** What may follow such a name without making another thing of it: `STRIPE_SECRET_KEY_LIVE`, `password2`. */
const SUFFIX =
  /^(?:\d+|prod|production|dev|development|live|test|staging|main|primary|secondary|old|new|current|value|base64|b64)$/;

const MAX_NAME_CHARS = 200;

const wordsOf = (name: string): readonly string[] => {
  const words = name
    .slice(-MAX_NAME_CHARS)
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .replace(/([A-Za-z])(\d+)$/, "$1 $2")
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter((word) => word !== "");
  let count = words.length;
  while (count > 1 && SUFFIX.test(words[count - 1] ?? "")) count--;
  return words.slice(0, count);
};

/** Whether a value under this name is a secret whatever it looks like (S6). */
export const isSecretName = (name: string): boolean => {
  const words = wordsOf(name);
  const last = words.at(-1) ?? "";
  const before = words.at(-2) ?? "";
  if (ALWAYS.has(last) || JOINED.test(last)) return true;
  switch (last) {
    case "token":
      return !PLAIN_TOKEN_OF.has(before);
    case "tokens":
      return TOKENS_OF.has(before);
    case "key":
      return KEY_OF.has(before);
    case "keys":
      return KEYS_OF.has(before);
    case "pass":
      return PASS_OF.has(before);
    case "pat":
      return PAT_OF.has(before);
    case "id":
      return before === "key" && words.at(-3) === "access";
    case "signature":
      return before === "amz" || before === "goog";
    case "assertion":
      return before === "client";
    default:
      return false;
  }
};

/** Whether the name says that its value is a password: nobody writes a number, a type or a word of prose in its place by chance. */
export const isPasswordName = (name: string): boolean =>
  /pass(?:word|wd|phrase|code)?s?$|pwd$/.test(wordsOf(name).at(-1) ?? "");
