/** Each scheme with what its provider publishes: the examples of their own documentation, where there are any. */
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { joined, sameText } from "../../../src/webhooks/schemes/hmac.ts";
import type { VerifyOptions } from "../../../src/webhooks/schemes/scheme.ts";
import { schemeOf, type Verification } from "../../../src/webhooks/verification.ts";

interface Vector {
  readonly verification: Verification;
  readonly secret: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly nowSeconds: number;
  /** The header with the signature. */
  readonly signature: string;
  /** The header with the time, where it has one of its own. */
  readonly time?: string;
}

const hex = (secret: string, text: string, algorithm = "sha256") =>
  createHmac(algorithm, secret).update(text).digest("hex");

const SLACK_BODY =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

const LINEAR_BODY = '{"action":"create","type":"Issue","webhookTimestamp":1531420618123}';

const vectors: Readonly<Record<string, Vector>> = {
  "Standard Webhooks, the vector of its reference libraries": {
    verification: { scheme: "standard" },
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    body: '{"test": 2432232314}',
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    nowSeconds: 1_614_265_330,
    signature: "webhook-signature",
    time: "webhook-timestamp",
  },
  "GitHub, the values of its documentation": {
    verification: { scheme: "github" },
    secret: "It's a Secret to Everybody",
    body: "Hello, World!",
    headers: { "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" },
    nowSeconds: 1_614_265_330,
    signature: "x-hub-signature-256",
  },
  "Slack, the request of its documentation": {
    verification: { scheme: "slack" },
    secret: "8f742231b10e8888abcd99yyyzzz85a5",
    body: SLACK_BODY,
    headers: {
      "x-slack-request-timestamp": "1531420618",
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    },
    nowSeconds: 1_531_420_618,
    signature: "x-slack-signature",
    time: "x-slack-request-timestamp",
  },
  "Stripe, by the recipe of its documentation (no secret is published)": {
    verification: { scheme: "stripe" },
    secret: "whsec_test_secret",
    body: '{"id":"evt_1","object":"event"}',
    headers: {
      "stripe-signature": `t=1492774577,v1=${hex("whsec_test_secret", '1492774577.{"id":"evt_1","object":"event"}')},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39`,
    },
    nowSeconds: 1_492_774_577,
    signature: "stripe-signature",
  },
  "Linear, by the recipe of its documentation (no secret is published)": {
    verification: { scheme: "linear" },
    secret: "lin_wh_secret",
    body: LINEAR_BODY,
    headers: { "linear-signature": hex("lin_wh_secret", LINEAR_BODY), "linear-delivery": "234d1a4e" },
    nowSeconds: 1_531_420_618,
    signature: "linear-signature",
  },
  // RFC 4231 test case 2 and RFC 2202 test case 2.
  "HMAC-SHA256 of RFC 4231": {
    verification: { scheme: "hmac", header: "X-Sig" },
    secret: "Jefe",
    body: "what do ya want for nothing?",
    headers: { "x-sig": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
    nowSeconds: 0,
    signature: "x-sig",
  },
  "HMAC-SHA512 of RFC 4231, in upper case": {
    verification: { scheme: "hmac", algorithm: "sha512" },
    secret: "Jefe",
    body: "what do ya want for nothing?",
    headers: {
      "x-signature":
        "164B7A7BFCF819E2E395FBE73B56E0A387BD64222E831FD610270CD7EA2505549758BF75C05A994A6D034F65F8F0E6FDCAEAB1A34D4A6B4B636E070A38BCE737",
    },
    nowSeconds: 0,
    signature: "x-signature",
  },
  "HMAC-SHA1 of RFC 2202, in base64 with a prefix": {
    verification: { scheme: "hmac", algorithm: "sha1", encoding: "base64", prefix: "sha1=" },
    secret: "Jefe",
    body: "what do ya want for nothing?",
    headers: { "x-signature": "sha1=7/zfauXrL6LSdBbV8YTfnCWafHk=" },
    nowSeconds: 0,
    signature: "x-signature",
  },
  "an HMAC with a time that is signed": {
    verification: { scheme: "hmac", timestamp_header: "X-Time", separator: ":" },
    secret: "secret12",
    body: "{}",
    headers: { "x-time": "1531420618", "x-signature": hex("secret12", "1531420618:{}") },
    nowSeconds: 1_531_420_618,
    signature: "x-signature",
    time: "x-time",
  },
  "a bearer secret": {
    verification: { scheme: "bearer" },
    secret: "s3cr3t-s3cr3t",
    body: "{}",
    headers: { authorization: "Bearer s3cr3t-s3cr3t" },
    nowSeconds: 0,
    signature: "authorization",
  },
};

const verify = (vector: Vector, change: Partial<Vector> = {}, options: Partial<VerifyOptions> = {}) => {
  const { verification, secret, body, headers, nowSeconds } = { ...vector, ...change };
  const given = { secrets: [secret], nowSeconds, toleranceSeconds: 300, ...options };
  return schemeOf(verification).verify({ headers, body: joined(body) }, given);
};

const reason = async (verdict: ReturnType<typeof verify>) => {
  const result = await verdict;
  return result.kind === "refused" ? result.reason : result.kind;
};

describe.each(Object.entries(vectors))("%s", (_, vector) => {
  const { signature } = vector;
  const changed = (headers: Readonly<Record<string, string>>) => ({ headers: { ...vector.headers, ...headers } });
  const timed = !["github", "bearer"].includes(vector.verification.scheme) && vector.nowSeconds > 0;

  it("is verified", async () => {
    expect(await reason(verify(vector))).toBe("verified");
  });

  it("is verified by any of the secrets, and refused once its own is gone (rotation)", async () => {
    const other = vector.verification.scheme === "standard" ? "whsec_c2VjcmV0c2VjcmV0c2VjcmV0" : "another secret";
    expect(await reason(verify(vector, {}, { secrets: [other, vector.secret] }))).toBe("verified");
    expect(await reason(verify(vector, {}, { secrets: [other] }))).toBe("signature_wrong");
    expect(await reason(verify(vector, {}, { secrets: [] }))).toBe("signature_wrong");
  });

  it("does not pass with another body, unless the scheme is the secret alone", async () => {
    const body = vector.body.replace(/.$/, " ");
    expect(await reason(verify(vector, { body }))).toBe(
      vector.verification.scheme === "bearer" ? "verified" : "signature_wrong",
    );
  });

  it("does not pass without its signature, or with an empty one", async () => {
    const { [signature]: _gone, ...headers } = vector.headers;
    expect(await reason(verify(vector, { headers }))).toBe("signature_missing");
    expect(await reason(verify(vector, changed({ [signature]: "" })))).toBe("signature_missing");
  });

  it("does not pass with a signature that is cut, longer, or of another kind", async () => {
    const whole = vector.headers[signature] ?? "";
    for (const wrong of [whole.slice(0, -3), `${whole}00`, "sha1=00", "v2,AAAA", "Basic YTpi", "\u00e9"]) {
      // Of a list of signatures, one that is cut off at the end leaves the others.
      if (vector.verification.scheme === "stripe" && wrong.startsWith("t=")) continue;
      expect(await reason(verify(vector, changed({ [signature]: wrong })))).toMatch(/^signature_(wrong|malformed)$/);
    }
  });

  if (timed) {
    it("is refused when its time is further from now than the tolerance, before and after", async () => {
      const at = (seconds: number) => verify(vector, { nowSeconds: vector.nowSeconds + seconds });
      expect(await Promise.all([-301, -300, 300, 301].map((seconds) => reason(at(seconds))))).toEqual([
        "timestamp_stale",
        "verified",
        "verified",
        "timestamp_stale",
      ]);
      const wide = verify(vector, { nowSeconds: vector.nowSeconds + 900 }, { toleranceSeconds: 1_000 });
      expect(await reason(wide)).toBe("verified");
    });
  }

  if (vector.time !== undefined) {
    it("is refused without its time, or with another one", async () => {
      const { time = "" } = vector;
      const { [time]: _gone, ...headers } = vector.headers;
      expect(await reason(verify(vector, { headers }))).toBe("timestamp_missing");
      expect(await reason(verify(vector, changed({ [time]: String(vector.nowSeconds + 1) })))).toBe("signature_wrong");
    });
  }

  it("signs what it verifies", async () => {
    const scheme = schemeOf(vector.verification);
    const body = joined(vector.body);
    const { secret, nowSeconds } = vector;
    const headers = await scheme.sign(body, { secret, nowSeconds, eventId: "evt_1" });
    const verdict = await scheme.verify({ headers, body }, { secrets: [secret], nowSeconds, toleranceSeconds: 300 });
    expect(verdict.kind).toBe("verified");
  });
});

describe("a replay", () => {
  const keys = async (vector: Vector | undefined, headers: Readonly<Record<string, string>> = {}) => {
    if (vector === undefined) throw new Error("no such vector");
    const verdict = await verify(vector, { headers: { ...vector.headers, ...headers } });
    return verdict.kind === "verified" ? [verdict.eventId, verdict.replayKey] : verdict;
  };

  it("has the event id that Standard Webhooks signs", async () => {
    expect(await keys(vectors["Standard Webhooks, the vector of its reference libraries"])).toEqual([
      "msg_p5jXN8AQM9LWM0D4loKWxJek",
      null,
    ]);
  });

  it("of GitHub with another delivery id is known by its body, since the id is not signed", async () => {
    const vector = vectors["GitHub, the values of its documentation"];
    const [first, second] = [
      await keys(vector, { "x-github-delivery": "a" }),
      await keys(vector, { "x-github-delivery": "b" }),
    ];
    expect([first, second]).toEqual([
      ["a", expect.stringMatching(/^[0-9a-f]{64}$/)],
      ["b", Array.isArray(first) ? first[1] : null],
    ]);
  });
});

describe("several signatures", () => {
  it("of Standard Webhooks may stand in one header; one of version 1 must match", async () => {
    const vector = vectors["Standard Webhooks, the vector of its reference libraries"];
    if (vector === undefined) throw new Error("no such vector");
    const good = vector.headers["webhook-signature"] ?? "";
    const signed = (signature: string) =>
      reason(verify(vector, { headers: { ...vector.headers, "webhook-signature": signature } }));
    expect(await signed(`v1,AAAA ${good}`)).toBe("verified");
    expect(await signed(good.replace("v1", "v1a"))).toBe("signature_malformed");
    expect(await signed(`${"v1,AAAA ".repeat(50)}${good}`)).toBe("signature_wrong");
  });

  it("of Stripe may stand in one header; v0 is never looked at", async () => {
    const vector = vectors["Stripe, by the recipe of its documentation (no secret is published)"];
    if (vector === undefined) throw new Error("no such vector");
    const good = hex(vector.secret, `1492774577.${vector.body}`);
    const signed = (signature: string) => reason(verify(vector, { headers: { "stripe-signature": signature } }));
    expect(await signed(`t=1492774577, v1=${"0".repeat(64)}, v1=${good}`)).toBe("verified");
    expect(await signed(`t=1492774577,v0=${good}`)).toBe("signature_malformed");
    expect(await signed(`v1=${good}`)).toBe("timestamp_missing");
  });
});

describe("the time of a Linear delivery", () => {
  it.each(["{}", "[]", "null", '{"webhookTimestamp":"soon"}', "not JSON"])("is missing in %s", async (body) => {
    const headers = { "linear-signature": hex("s", body) };
    const verdict = verify({
      verification: { scheme: "linear" },
      secret: "s",
      body,
      headers,
      nowSeconds: 1,
      signature: "",
    });
    expect(await reason(verdict)).toBe("timestamp_missing");
  });
});

describe("comparing", () => {
  it("looks at every character that counts", () => {
    const text = "0123456789abcdef".repeat(4);
    const flipped = Array.from(text, (_, at) => `${text.slice(0, at)}!${text.slice(at + 1)}`);
    expect([
      sameText(text, text),
      flipped.some((each) => sameText(each, text)),
      sameText("", text),
      sameText(text, ""),
    ]).toEqual([true, false, false, false]);
  });
});
