import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { besideSecret, isSecretName, redact } from "../../../src/protocol/redact.ts";

/** Made of parts, so that no scanner takes this file for a leak. */
const join = (...parts: readonly string[]): string => parts.join("");
const body = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z";

const SECRETS: readonly (readonly [string, string, string])[] = [
  ["anthropic_key", "the key of a model provider", join("sk-", "ant-api03-", body)],
  ["openai_key", "a project key", join("sk-", "proj-", body)],
  ["github_token", "a classic token", join("gh", "p_", body)],
  ["github_token", "an OAuth token", join("gh", "o_", body)],
  ["github_token", "a fine-grained token", join("github", "_pat_", "11", body)],
  ["gitlab_token", "a personal token", join("gl", "pat-", body)],
  ["slack_token", "a bot token", join("xo", "xb-", "123456789012-", body)],
  ["aws_key", "an access key id", join("AK", "IA", "IOSFODNN7EXAMPLE")],
  ["google_key", "an API key", join("AI", "za", body, "xyz")],
  ["huggingface_token", "a token", join("h", "f_", body)],
  ["npm_token", "a token", join("np", "m_", body)],
  ["stripe_key", "a live key", join("sk", "_live_", body)],
  ["sendgrid_key", "a key", join("S", "G.", body, ".", body)],
  ["jwt", "a signed token", join("ey", "JhbGciOiJIUzI1NiJ9", ".", "eyJzdWIiOiIxMjM0In0", ".", body)],
];

describe("redact (S6)", () => {
  test.each(SECRETS)("S6: %s (%s) leaves the text, whatever stands around it", (kind, _what, secret) => {
    expect(redact(`use ${secret}, then go on`)).toEqual({ text: `use [redacted ${kind}], then go on`, hits: 1 });
    expect(redact(`{"value":"${secret}"}`).text).toBe(`{"value":"[redacted ${kind}]"}`);
    expect(redact(`line one\n${secret}\nline three`).hits).toBe(1);
  });

  test.each([
    ["Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted authorization]"],
    ["-H 'authorization: Basic dXNlcjpwYXNz'", "-H 'authorization: Basic [redacted authorization]'"],
    ['{"Authorization": "Token 9944b09199c62bcf"}', '{"Authorization": "[redacted authorization]"}'],
    ['say {"Authorization": "Token 9944b09199c62bcf"}', 'say {"Authorization": "Token [redacted authorization]"}'],
    ["postgres://app:s3cr3t@db.internal:5432/main", "postgres://app:[redacted url_credentials]@db.internal:5432/main"],
    ["api_key=9f8e7d6c5b4a, next", "api_key=[redacted named_secret], next"],
    ['"client_secret": "q1w2e3r4t5y6"', '"client_secret": "[redacted named_secret]"'],
    ["DB_PASSWORD=hunter2", "DB_PASSWORD=[redacted named_secret]"],
    ['password: "correct horse"', 'password: "[redacted named_secret]"'],
    ["curl --token a1b2c3d4e5 url", "curl --token [redacted named_secret] url"],
    ["https://x.test/?access_token=a1b2c3d4e5&page=2", "https://x.test/?access_token=[redacted named_secret]&page=2"],
  ])("S6: in %j only the secret goes", (text, expected) => {
    expect(redact(text)).toEqual({ text: expected, hits: 1 });
  });

  test("S6: a private key goes whole, also one that was cut off", () => {
    const key = `-----BEGIN RSA PRIVATE KEY-----\n${body}\n${body}\n-----END RSA PRIVATE KEY-----`;
    expect(redact(`before ${key} after`)).toEqual({ text: "before [redacted pem] after", hits: 1 });
    expect(redact(`before ${key.slice(0, 70)}`)).toEqual({ text: "before [redacted pem]", hits: 1 });
  });

  test.each([
    "/home/dev/app/src/token-store.ts",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "550e8400-e29b-41d4-a716-446655440000",
    "toolu_01A09q90qw90lq917835lq9 and msg_01XFDUDYJgAACzvnptvVoYEL",
    "order #W2378156, reservation EQ1G6C, user mia_li_3668",
    "const token = await getToken(request);",
    "readonly password: string;",
    "max_tokens: 4096, input_tokens=12345678",
    "api_key = os.environ.get('KEY')",
    "the token: expired yesterday",
    "see https://example.test/docs/secrets.html#tokens",
    "task-based, sk-learn, disk-usage, hf_model",
  ])("S6: %j stays as it is", (text) => {
    expect(redact(text)).toEqual({ text, hits: 0 });
  });

  test("S6: redacting twice changes nothing", () => {
    const piece = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom(
        ...SECRETS.map(([, , secret]) => secret),
        "password=",
        "Authorization: ",
        "://u:",
        "@",
        '"',
        " ",
        "\n",
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const once = redact(pieces.join(""));
        expect(redact(once.text)).toEqual({ text: once.text, hits: 0 });
      }),
      { numRuns: 1000 },
    );
  });

  test("S6: hostile text of a megabyte takes linear time", () => {
    const repeated = [
      "password=",
      "authorization: ",
      "-----BEGIN PRIVATE KEY-----",
      "a_",
      "://a:",
      "eyJ",
      "sk-",
      '\\"',
    ];
    for (const piece of repeated) {
      const text = piece.repeat(Math.ceil(1_000_000 / piece.length));
      // Quadratic work on so much would outlast the test's time limit.
      expect(() => redact(text), piece).not.toThrow();
    }
  });

  test("S6: one word, one line and one key of 8 MB run out of no stack, and go whole", () => {
    const long = "a".repeat(8_000_000);
    expect(redact(`ghp_${long}`).text).toBe("[redacted github_token]");
    expect(redact(`-----BEGIN PRIVATE KEY-----\n${long}`).text).toBe("[redacted pem]");
    for (const text of [
      long,
      " ".repeat(8_000_000),
      `Bearer ${long}`,
      `Authorization: x ${long}`,
      `{"a"${" ".repeat(9_999)}:1}`,
    ])
      expect(() => redact(text)).not.toThrow();
    expect(redact(JSON.stringify({ password: long })).text).toBe('{"password":"[redacted named_secret]"}');
  });

  test("S6: names of secrets are told from names that hold the word", () => {
    expect(["password", "apiKey", "client_secret", "authToken"].filter(isSecretName)).toHaveLength(4);
    expect(["file_path", "max_tokens", "keyboard", "secretary", "tokens"].filter(isSecretName)).toEqual([]);
  });
});

describe("besideSecret (S6)", () => {
  const secret = join("gh", "p_", body);
  const text = `the token ${secret} is in use`;
  const [start, end] = [text.indexOf(secret), text.indexOf(secret) + secret.length];

  test("S6: a cut within a secret moves to its edges, any other stays where it is", () => {
    expect(besideSecret(text, start + 5)).toEqual({ before: start, after: end });
    for (const at of [0, 3, start, end, text.length]) expect(besideSecret(text, at)).toEqual({ before: at, after: at });
  });

  test("S6: no cut of a text leaves a piece of a secret on either side, however small the text around it", () => {
    const piece = fc.oneof(fc.string({ maxLength: 8 }), fc.constantFrom(...SECRETS.map(([, , each]) => ` ${each} `)));
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), fc.nat(400), (pieces, at) => {
        const whole = pieces.join("");
        const { before, after } = besideSecret(whole, Math.min(at, whole.length));
        const left = redact(whole.slice(0, before)).text + redact(whole.slice(after)).text;
        for (const [, , each] of SECRETS) {
          if (!whole.includes(` ${each} `)) continue;
          expect(left).not.toContain(each.slice(0, 24));
          expect(left).not.toContain(each.slice(-16));
        }
      }),
      { numRuns: 500 },
    );
  });
});
