/** Random secrets in random places are always gone, and what only looks like one never is (S6). */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isSecretName, redact, redactJson } from "../../../src/protocol/redact.ts";

const from = (alphabet: string, min: number, max = min): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom(...alphabet), { minLength: min, maxLength: max }).map((units) => units.join(""));
const LOWER = "abcdefghijklmnopqrstuvwxyz";
const UPPER = LOWER.toUpperCase();
const DIGITS = "0123456789";
const WORD = LOWER + UPPER + DIGITS;
const HEX = "0123456789abcdef";

/** Without a digit a bare value is told from a word by nothing, so every random secret has one. */
const withDigit = (secret: fc.Arbitrary<string>): fc.Arbitrary<string> => secret.map((text) => `${text.slice(0, -1)}7`);
const begun = (prefix: string, rest: fc.Arbitrary<string>): fc.Arbitrary<string> => rest.map((text) => prefix + text);

/** Secrets that say themselves what they are. */
const KNOWN: Readonly<Record<string, fc.Arbitrary<string>>> = {
  anthropic: begun("sk-ant-api03-", withDigit(from(`${WORD}-_`, 40, 95))),
  openai: begun("sk-proj-", withDigit(from(`${WORD}-_`, 40, 60))),
  github: begun("ghp_", from(WORD, 36)),
  "github, fine-grained": begun("github_pat_", from(`${WORD}_`, 60, 82)),
  gitlab: begun("glpat-", from(`${WORD}-_`, 20)),
  slack: begun("xoxb-", from(`${DIGITS}-${WORD}`, 30, 50)),
  "aws id": begun("AKIA", from(UPPER + DIGITS, 16)),
  google: begun("AIza", from(`${WORD}-_`, 35)),
  "hugging face": begun("hf_", from(WORD, 34)),
  npm: begun("npm_", from(WORD, 36)),
  stripe: begun("sk_live_", from(WORD, 24, 90)),
  sendgrid: fc.tuple(from(`${WORD}-_`, 22), from(`${WORD}-_`, 43)).map(([a, b]) => `SG.${a}.${b}`),
  hango: begun("hango_", from(WORD, 40)),
  jwt: fc
    .tuple(from(`${WORD}-_`, 20, 200), from(`${WORD}-_`, 20, 300), from(`${WORD}-_`, 43))
    .map(([a, b, c]) => `eyJ${a}.eyJ${b}.${c}`),
  twilio: begun("SK", from(HEX, 32)),
  shopify: begun("shpat_", from(HEX, 32)),
  vault: begun("hvs.", withDigit(from(WORD, 24, 90))),
};

const PEM = fc
  .tuple(
    fc.constantFrom("RSA ", "EC ", "OPENSSH ", ""),
    fc.array(from(`${WORD}+/`, 64), { minLength: 2, maxLength: 20 }),
  )
  .map(([kind, lines]) => ({ kind, lines }));

/** Secrets that only their name gives away. */
const OPAQUE = withDigit(from(WORD, 12, 48));
const PASSWORD = from(`${WORD}!$%^*-_+.~#/`, 8, 24).map((text) => `p${text}7`);
const KEY_NAMES = [
  "api_key",
  "apiKey",
  "API_KEY",
  "client_secret",
  "access_token",
  "aws_secret_access_key",
  "X-Api-Key",
];
const PASSWORD_NAMES = ["password", "DB_PASSWORD", "dbPassword", "PGPASSWORD", "smtp_pass"];

/** What stands around: prose, code, identifiers, other text of the world. */
const FILLER = fc.constantFrom(
  "see /srv/app/src/main.ts for it",
  "ticket INV-2024-00917 was closed",
  "3f786850e387550fdab836ed7e6dc881de23001b",
  "const token = await getToken(request);",
  "max_tokens: 4096",
  "密钥在这里",
  "🙂",
  "a=1; b=2",
  "{ }",
  "",
);

type Around = (secret: string, name: string) => string;

/** Where any secret may stand that says itself what it is. */
const PLACES: Readonly<Record<string, Around>> = {
  prose: (s) => `the key is ${s}, use it`,
  "end of a sentence": (s) => `it is ${s}.`,
  "a line": (s) => `first\n${s}\nlast`,
  backticks: (s) => `run \`${s}\``,
  parentheses: (s) => `(${s})`,
  json: (s) => JSON.stringify({ value: s, note: "x" }),
  "json in prose": (s) => `it answered ${JSON.stringify({ value: [s] })} at once`,
  "json in json": (s) => JSON.stringify({ body: JSON.stringify({ value: s }) }),
  "json in json in json": (s) => JSON.stringify({ a: JSON.stringify({ b: JSON.stringify({ c: s }) }) }),
  "after an escaped line break": (s) => `log: ${JSON.stringify(`one\n${s}\ntwo`)} end`,
  "cut-off json": (s) => `{"command":"first\\n${s}\\nlast","more":"`,
  yaml: (s) => `config:\n  value: ${s}\n  other: 1`,
  dotenv: (s) => `A=1\nVALUE=${s}\nB=2`,
  shell: (s) => `export VALUE='${s}' && run`,
  "a header": (s) => `X-Value: ${s}`,
  "a query": (s) => `https://acme.test/a?value=${s}&b=1`,
  "a query, encoded": (s) => `https://acme.test/a?to=${encodeURIComponent(`https://b.test/?v=${s}&w=1`)}`,
  "the user of a URL": (s) => `https://${s}@acme.test/repo.git`,
  "a diff": (s) => `+ const key = "${s}";`,
  colours: (s) => `\u001b[31m${s}\u001b[0m`,
};

/** Where a value stands under a name. */
const NAMED: Readonly<Record<string, Around>> = {
  json: (s, name) => JSON.stringify({ [name]: s, id: "INV-2024-00917" }),
  "json in prose": (s, name) => `it sent ${JSON.stringify({ [name]: s })} then`,
  "json on two lines": (s, name) => `{\n  "${name}":\n    "${s}"\n}`,
  "json in json": (s, name) => JSON.stringify({ body: JSON.stringify({ a: { [name]: s } }) }),
  "json in json, cut off": (s, name) => `{"body":${JSON.stringify(JSON.stringify({ [name]: s }))},"x":"`,
  "a pair": (s, name) => JSON.stringify([{ name, value: s }]),
  "a pair in yaml": (s, name) => `env:\n  - name: ${name}\n    value: "${s}"`,
  yaml: (s, name) => `${name}: "${s}"`,
  "yaml, block": (s, name) => `${name}: |\n  ${s}\nnext: 1`,
  "quoted assignment": (s, name) => `${name} = '${s}'`,
  javascript: (s, name) => `const config = { "${name}": "${s}", port: 80 };`,
  python: (s, name) => `os.environ["${name}"] = "${s}"`,
  "after an escaped line break": (s, name) => `{"command":"first\\n${name}=${s}\\nlast","x":"`,
  xml: (s, name) => `<${name}>${s}</${name}>`,
  flags: (s, name) => JSON.stringify({ args: ["run", `--${name}`, s] }),
};

/** Where a value stands under a name without quotes: a word of its line. */
const BARE: Readonly<Record<string, Around>> = {
  dotenv: (s, name) => `A=1\n${name.toUpperCase().replaceAll("-", "_")}=${s}\nB=2`,
  export: (s, name) => `export ${name.toUpperCase().replaceAll("-", "_")}=${s}`,
  flag: (s, name) => `run --${name.toLowerCase()} ${s} --verbose`,
  "flag with =": (s, name) => `run --${name.toLowerCase()}=${s} --verbose`,
};

const gone = (places: Readonly<Record<string, Around>>, secret: fc.Arbitrary<string>, names: readonly string[]) =>
  fc.property(
    fc.constantFrom(...Object.entries(places)),
    secret,
    fc.constantFrom(...names),
    FILLER,
    FILLER,
    ([place, around], hidden, name, before, after) => {
      const text =
        place.includes("json") && !place.includes("prose")
          ? around(hidden, name)
          : `${before}\n${around(hidden, name)}\n${after}`;
      const { text: left, hits } = redact(text);
      expect(left, `${place}, ${name}`).not.toContain(hidden);
      expect(hits).toBeGreaterThan(0);
      // What stands around it is not touched.
      if (text.includes("INV-2024-00917")) expect(left).toContain("INV-2024-00917");
    },
  );

describe("S6: a random secret", () => {
  it.each(Object.entries(KNOWN))("%s is gone, wherever it stands", (_kind, secret) => {
    fc.assert(gone(PLACES, secret, ["value"]), { numRuns: 150 });
  });

  it("is gone under a name of a secret, however it is written", () => {
    fc.assert(gone(NAMED, OPAQUE, KEY_NAMES), { numRuns: 600 });
    fc.assert(gone(NAMED, PASSWORD, PASSWORD_NAMES), { numRuns: 600 });
  });

  it("is gone under such a name as a word of its own", () => {
    fc.assert(gone(BARE, OPAQUE, KEY_NAMES), { numRuns: 300 });
    fc.assert(gone(BARE, PASSWORD, PASSWORD_NAMES), { numRuns: 300 });
  });

  it("is gone from URLs and connection strings, whose host and path stay", () => {
    const scheme = fc.constantFrom("postgres", "postgresql", "mysql", "mongodb+srv", "redis", "amqp", "https", "ftp");
    fc.assert(
      fc.property(
        scheme,
        from(LOWER, 1, 8),
        from(`${WORD}!$*-_+.~@:`, 4, 24),
        fc.boolean(),
        (kind, user, password, encoded) => {
          const url = `${kind}://${user}:${encoded ? encodeURIComponent(`p${password}7`) : `p${password}7`}@db.acme.test:5432/main?x=1`;
          const { text } = redact(`connect to ${url} now`);
          expect(text).toBe(`connect to ${kind}://${user}:[redacted url_credentials]@db.acme.test:5432/main?x=1 now`);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("is gone from headers, cookies and commands", () => {
    const lines: readonly Around[] = [
      (s) => `Authorization: Bearer ${s}`,
      (s) => `curl -H "Authorization: Bearer ${s}" https://acme.test/a`,
      (s) => `{"headers":{"Authorization":"Bearer ${s}"}}`,
      (s) => `proxy-authorization: token ${s}`,
      (s) => `Set-Cookie: session=${s}; Path=/; Secure`,
      (s) => `Cookie: theme=dark; session=${s}`,
      (s) => `curl -b 'session=${s}' https://acme.test/a`,
      (s) => `curl -u admin:${s} https://acme.test/a`,
      (s) => `curl -sS \\\n  --user 'admin:${s}' \\\n  https://acme.test/a`,
      (s) => `-H 'X-Api-Key: ${s}'`,
      (s) => `X-Auth-Token: ${s}`,
      (s) => `mysql -u root -p${s} shop`,
      (s) => `sshpass -p ${s} ssh host`,
      (s) => `machine acme.test login bob password ${s}`,
      (s) => `ALTER USER app WITH PASSWORD '${s}';`,
      (s) => `Server=db;User Id=app;Password=${s};Encrypt=true`,
      (s) => `DefaultEndpointsProtocol=https;AccountName=a;AccountKey=${s}==;EndpointSuffix=x`,
      (s) => `https://acme.blob.test/c/b.txt?sv=2020&sig=${s}`,
      (s) => `https://hooks.slack.com/services/T00000000/B00000000/${s}xxxx`,
      (s) => `{"kty":"RSA","n":"abc","d":"${s}${s}"}`,
    ];
    fc.assert(
      fc.property(fc.constantFrom(...lines), withDigit(from(WORD, 16, 40)), FILLER, (around, secret, filler) => {
        expect(redact(`${filler}\n${around(secret, "")}\n${filler}`).text).not.toContain(secret);
      }),
      { numRuns: 800 },
    );
  });

  it("is gone from a key file, whole, cut off at either end, on one line, or shown with line numbers", () => {
    const shapes: readonly ((lines: readonly string[]) => readonly string[])[] = [
      (lines) => lines,
      (lines) => lines.slice(0, -1),
      (lines) => lines.slice(1),
      (lines) => lines.map((line, at) => `${String(at + 1).padStart(6)}\t${line}`),
      (lines) => lines.slice(1).map((line, at) => `${String(at + 1).padStart(6)}\t${line}`),
      (lines) => lines.map((line) => `  ${line}`),
    ];
    fc.assert(
      fc.property(PEM, fc.constantFrom(...shapes), fc.boolean(), ({ kind, lines }, shape, escaped) => {
        const pem = [`-----BEGIN ${kind}PRIVATE KEY-----`, ...lines, `-----END ${kind}PRIVATE KEY-----`];
        const text = shape(pem).join(escaped ? "\\n" : "\n");
        const { text: left } = redact(`the file holds\n${text}\nas it seems`);
        for (const line of lines) expect(left).not.toContain(line);
        expect(left).toContain("as it seems");
      }),
      { numRuns: 300 },
    );
  });

  it("is gone from structured values whatever it looks like, at any depth, and all else stays", () => {
    const leaf = fc.oneof(
      fc.constantFrom("expired", "INV-2024-00917", "/srv/a.ts"),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
    );
    const value = fc.letrec((tie) => ({
      node: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie("node"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom("a", "b", "items"), tie("node")),
      ),
    })).node;
    fc.assert(
      fc.property(
        value,
        fc.constantFrom(...KEY_NAMES, ...PASSWORD_NAMES),
        fc.constantFrom("hunter", "two words", "x"),
        (around, name, secret) => {
          const given = { around, deep: [{ [name]: secret }] };
          expect(redactJson(given)).toEqual({ around, deep: [{ [name]: "[redacted named_secret]" }] });
          const text = JSON.stringify(JSON.stringify(given));
          expect(redact(text).text).toBe(JSON.stringify(JSON.stringify(redactJson(given))));
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("S6: what is no secret", () => {
  const path = fc
    .tuple(
      fc.array(fc.constantFrom("src", "auth", "tokens", "secret-store", "keys", "api_key", "lib"), {
        minLength: 1,
        maxLength: 4,
      }),
      fc.constantFrom("token.ts", "password.test.ts", "key.pem", "credentials.json"),
    )
    .map(([parts, file]) => `/${parts.join("/")}/${file}`);
  const identifier = fc.oneof(
    from(HEX, 40).map((hash) => `commit ${hash}`),
    from(HEX, 7, 12),
    fc.uuid(),
    from(WORD, 24).map((id) => `toolu_${id}`),
    from(WORD, 24).map((id) => `msg_${id}`),
    from("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26).map((id) => `ses_${id}`),
    path,
    path.map((at) => `read ${at}:12:3`),
    fc.nat(99_999).map((count) => `max_tokens: ${count}, input_tokens=${count}, "output_tokens": ${count}`),
    fc.constantFrom(
      "const token = getToken()",
      "const { password, apiKey } = options;",
      "if (token === undefined) throw new TokenExpiredError();",
      "type Secret = { readonly password: string; readonly token?: string };",
      ["password=$DB_PASSWORD, token=$", "{{ secrets.DEPLOY_TOKEN }}"].join(""),
      "api_key: <your-api-key>",
      'authorization: "required"',
      "next_page_token: CAESBgoEMgIIAQ7, primary key: order_id1",
      "https://acme.test:8080/@scope/package?page=2",
      "git@github.com:acme/billing.git and bob@acme.test",
      "docker run -u 1000:1000 image",
      "the password is wrong, and the token has expired: try again",
      "sk-learn-contrib, task-force, hf_model, npm_config_registry",
      "Cookie: a small biscuit",
    ),
  );

  it("is never touched, alone or beside others", () => {
    fc.assert(
      fc.property(fc.array(identifier, { minLength: 1, maxLength: 8 }), fc.constantFrom(" ", "\n", ", "), (ids, by) => {
        const text = ids.join(by);
        expect(redact(text)).toEqual({ text, hits: 0 });
        const value = { list: ids, note: text };
        expect(redactJson(value)).toBe(value);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    '{"packages":{"node_modules/cookie":{"version":"0.7.2","resolved":"https://registry.test/cookie.tgz"}}}',
    '{"dependencies":{"cookie":"^0.7.1","jwt":"1.0.0","csrf-token":"~2.1"}}',
    '{"type":"object","properties":{"password":{"type":"string","description":"At least 8."}}}',
    "names such as `DB_PASSWORD=`, `client_secret:` and `X-Api-Key:` are known",
    "send `Authorization: Bearer hango_...`, then export HANGO_API_KEY=hango_...",
  ])("%s stays as it is", (text) => {
    expect(redact(text)).toEqual({ text, hits: 0 });
  });

  it.each([
    ...[
      "max_tokens",
      "inputTokens",
      "token_count",
      "tokenizer",
      "next_page_token",
      "eos_token",
      "primary_key",
      "sortKey",
      "session_key",
    ],
    ...[
      "keyboard",
      "monkey",
      "secretary",
      "password_length",
      "credentialType",
      "passed",
      "tests_pass",
      "key",
      "bypass",
      "compass",
    ],
  ])("%s is no name of a secret", (name) => {
    expect(isSecretName(name)).toBe(false);
  });

  it.each([
    ...[
      "password",
      "DB_PASSWORD",
      "dbPassword",
      "PGPASSWORD",
      "apikey",
      "X-API-Key",
      "STRIPE_SECRET_KEY_LIVE",
      "awsSecretAccessKey",
    ],
    ...[
      "access_tokens",
      "_authToken",
      "client-secret",
      "private_key",
      "Authorization",
      "set-cookie",
      "OPENAI_API_KEY2",
      "AccountKey",
    ],
  ])("%s is a name of a secret", (name) => {
    expect(isSecretName(name)).toBe(true);
  });
});

describe("S6: redacting twice", () => {
  it("changes nothing, whatever the text", () => {
    const piece = fc.oneof(
      fc.string({ unit: "binary", maxLength: 6 }),
      ...Object.values(KNOWN),
      OPAQUE,
      PASSWORD,
      fc.constantFrom(
        ...[
          "password=",
          "Authorization: ",
          "Bearer ",
          "://u:",
          "@",
          '"',
          "'",
          "\\",
          "\n",
          " ",
          "{",
          "}",
          ":",
          "=",
          "--token ",
          "&sig=",
        ],
        ...[
          "Cookie: a=",
          "curl -u a:",
          '{"password":"',
          '"}',
          "-----BEGIN PRIVATE KEY-----",
          "-----END PRIVATE KEY-----",
          "api_key: |\n  ",
        ],
        ...["[redacted jwt]", "%3A%2F%2Fa%3A", "%40", "<token>", "\\n", '{"kty":"EC","d":"'],
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
        const once = redact(pieces.join(""));
        expect(redact(once.text)).toEqual({ text: once.text, hits: 0 });
      }),
      { numRuns: 3000 },
    );
  });
});
