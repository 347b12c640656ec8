/** How a sender proves that a delivery is its own: one interface, a file per scheme. Pure but for WebCrypto; no clock, no I/O. */

/** A delivery as it came. */
export interface Received {
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** What a verification is made with. */
export interface VerifyOptions {
  /** Those that are valid, newest first; a delivery signed with any of them is accepted (rotation with overlap). */
  readonly secrets: readonly string[];
  /** Seconds since the epoch. */
  readonly nowSeconds: number;
  /** Furthest that the time of a delivery may be away from now, in either direction, in s. */
  readonly toleranceSeconds: number;
}

/** Why a delivery is not believed. Written to the delivery's row; the sender learns none of it. */
export type Distrust =
  | "signature_missing"
  | "signature_malformed"
  | "signature_wrong"
  | "timestamp_missing"
  | "timestamp_malformed"
  | "timestamp_stale";

export type Verdict =
  | {
      readonly kind: "verified";
      /** The sender's id of the event, where the scheme has one outside of the body's own fields; null for none. */
      readonly eventId: string | null;
      /** What a replay repeats even if it changes everything that is not signed; null where `eventId` itself is signed. */
      readonly replayKey: string | null;
    }
  | { readonly kind: "refused"; readonly reason: Distrust };

/** What a delivery is signed with, for the sample sender. */
export interface SignOptions {
  readonly secret: string;
  readonly nowSeconds: number;
  /** The id of the event. */
  readonly eventId: string;
}

export interface Scheme {
  /** Whether it is the sender's, and fresh. */
  verify(received: Received, options: VerifyOptions): Promise<Verdict>;
  /** The headers that the sender would add to this body. */
  sign(body: Uint8Array<ArrayBuffer>, options: SignOptions): Promise<Readonly<Record<string, string>>>;
}

/** Where the id of an event stands: in a header, or in the body at a path such as `event_id`. */
export type EventIdSource = { readonly header: string } | { readonly path: string };

export const refused = (reason: Distrust): Verdict => ({ kind: "refused", reason });

/**
 * Reads a time in whole seconds and checks it against now.
 * @returns the reason to refuse, or null
 */
export const staleness = (
  text: string | undefined,
  { nowSeconds, toleranceSeconds }: Pick<VerifyOptions, "nowSeconds" | "toleranceSeconds">,
): Distrust | null => {
  if (text === undefined || text === "") return "timestamp_missing";
  if (!/^\d{1,12}$/.test(text)) return "timestamp_malformed";
  return Math.abs(nowSeconds - Number(text)) > toleranceSeconds ? "timestamp_stale" : null;
};
