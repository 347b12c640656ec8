/** Which scheme a trigger verifies by, and where an event of it has its id. */
import { bearer } from "./schemes/bearer.ts";
import { generic } from "./schemes/generic.ts";
import { github } from "./schemes/github.ts";
import type { HmacAlgorithm, SignatureEncoding } from "./schemes/hmac.ts";
import { linear } from "./schemes/linear.ts";
import type { EventIdSource, Scheme } from "./schemes/scheme.ts";
import { slack } from "./schemes/slack.ts";
import { standard } from "./schemes/standard.ts";
import { stripe } from "./schemes/stripe.ts";

export const schemeNames = ["standard", "github", "slack", "stripe", "linear", "hmac", "bearer"] as const;
export type SchemeName = (typeof schemeNames)[number];

/** The `verification` of a trigger, as the API's schema lets it through. */
export interface Verification {
  readonly scheme: SchemeName;
  readonly tolerance_seconds?: number | undefined;
  readonly event_id?: EventIdSource | undefined;
  /** Of `hmac` alone. */
  readonly header?: string | undefined;
  readonly algorithm?: HmacAlgorithm | undefined;
  readonly encoding?: SignatureEncoding | undefined;
  readonly prefix?: string | undefined;
  readonly timestamp_header?: string | undefined;
  readonly separator?: string | undefined;
}

/** Default of `tolerance_seconds`: what Slack, Stripe and Standard Webhooks recommend. */
export const DEFAULT_TOLERANCE_SECONDS = 300;

/** Header of an HMAC when the trigger names none. */
export const DEFAULT_HMAC_HEADER = "X-Signature";

export const schemeOf = (verification: Verification): Scheme => {
  switch (verification.scheme) {
    case "standard":
      return standard;
    case "github":
      return github;
    case "slack":
      return slack;
    case "stripe":
      return stripe;
    case "linear":
      return linear;
    case "bearer":
      return bearer;
    case "hmac":
      return generic({
        header: (verification.header ?? DEFAULT_HMAC_HEADER).toLowerCase(),
        algorithm: verification.algorithm ?? "sha256",
        encoding: verification.encoding ?? "hex",
        prefix: verification.prefix ?? "",
        timestampHeader: verification.timestamp_header?.toLowerCase() ?? null,
        separator: verification.separator ?? ".",
      });
    default:
      return verification.scheme satisfies never;
  }
};

/** Where the body of an event has its id, for the senders that put it there. */
const ID_PATHS: Partial<Readonly<Record<SchemeName, string>>> = { slack: "event_id", stripe: "id" };

/** Where the id stands; undefined where the scheme's own headers have it, or nothing has. */
export const eventIdSource = ({ scheme, event_id }: Verification): EventIdSource | undefined => {
  const path = ID_PATHS[scheme];
  return event_id ?? (path === undefined ? undefined : { path });
};

/** Senders that may post a form: GitHub with `payload=<json>`, Slack for commands and interactions, anybody by hand. */
export const takesForms = (scheme: SchemeName): boolean => ["github", "slack", "hmac", "bearer"].includes(scheme);
