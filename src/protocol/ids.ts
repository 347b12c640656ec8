/** Branded ids with a typed prefix, as in the API (`ses_...`, `run_...`). */

declare const brand: unique symbol;
type Branded<Base, Name extends string> = Base & { readonly [brand]: Name };

export type TenantId = Branded<string, "TenantId">;
export type KeyId = Branded<string, "KeyId">;
export type SessionId = Branded<string, "SessionId">;
export type RunId = Branded<string, "RunId">;
export type MessageId = Branded<string, "MessageId">;
export type InputId = Branded<string, "InputId">;
export type CompactionId = Branded<string, "CompactionId">;
export type UsageId = Branded<string, "UsageId">;
export type TriggerId = Branded<string, "TriggerId">;
/** Of one of a trigger's secrets. */
export type SecretId = Branded<string, "SecretId">;
/** Of something that a trigger received. */
export type DeliveryId = Branded<string, "DeliveryId">;
export type EndpointId = Branded<string, "EndpointId">;
/** Of an event on its way to a receiver. */
export type WebhookDeliveryId = Branded<string, "WebhookDeliveryId">;

/** Of a tool call whose provider gave it no id that can be kept. */
export type CallId = Branded<string, "CallId">;

/** Position of a row in a session's log: 1 for the first. Rows are addressed by seq, never by array index (V4). */
export type Seq = Branded<number, "Seq">;

export const seq = (value: number): Seq => value as Seq;

interface IdTypes {
  tnt: TenantId;
  key: KeyId;
  ses: SessionId;
  run: RunId;
  msg: MessageId;
  inp: InputId;
  usg: UsageId;
  cmp: CompactionId;
  trg: TriggerId;
  sec: SecretId;
  dlv: DeliveryId;
  whe: EndpointId;
  whd: WebhookDeliveryId;
  call: CallId;
}

export type IdPrefix = keyof IdTypes;

/** Makes ids; injected, so that tests can make them predictable. */
export type NewId = <P extends IdPrefix>(prefix: P) => IdTypes[P];

/** 0-9, A-Z without I, L, O, U: Crockford's base 32, so that an id read aloud or sorted stays itself. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The last 16 characters of an id. @param bytes 16, random or a hash */
export const idTail = (bytes: Uint8Array): string => Array.from(bytes, (byte) => ALPHABET.charAt(byte % 32)).join("");

/**
 * A new id: prefix, 48 bits of time (ms), 80 bits of randomness (the layout of a ULID), so that ids of one table sort by age.
 * Must be called inside a request: Workers forbid randomness in the global scope.
 */
export const newId: NewId = (prefix) => {
  let time = Date.now();
  let head = "";
  for (let i = 0; i < 10; i++) {
    head = ALPHABET.charAt(time % 32) + head;
    time = Math.floor(time / 32);
  }
  return `${prefix}_${head}${idTail(crypto.getRandomValues(new Uint8Array(16)))}` as ReturnType<
    typeof newId<typeof prefix>
  >;
};

/** Whether a text has the shape of an id with this prefix. Says nothing about its existence. */
export const isId = <P extends IdPrefix>(prefix: P, text: string): text is IdTypes[P] & string =>
  text.length === prefix.length + 27 &&
  text.startsWith(`${prefix}_`) &&
  /^[0-9A-Z]+$/.test(text.slice(prefix.length + 1));
