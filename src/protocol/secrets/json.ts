/** Secrets in JSON: what stands under a name of a secret goes whatever it looks like, everything else is read as text (S6). */

import { endOfString } from "../json-text.ts";
import type { Edit } from "../splice.ts";
import { isMark, mark, type SecretKind } from "./found.ts";
import { isPasswordName, isSecretName } from "./names.ts";

/** What is known of the object or array that is being read. */
interface Frame {
  readonly isArray: boolean;
  /** It stands under a name of a secret. */
  readonly secret: boolean;
  key: string;
  /** The string before, in an array: `["--token", "..."]`. */
  previous: string;
  /** Of `{"name": "DB_PASSWORD", "value": "..."}`. */
  namesSecret: boolean;
  isKey: boolean;
  /** Between the first and the last line of a key file, in a list of lines. */
  inPem: boolean;
  readonly held: { readonly name: string; readonly edit: Edit }[];
}

const NAMING = /^(?:name|key|header|variable|field|param(?:eter)?|env)$/i;
const VALUE = /^(?:value|val|default|content)$/i;
const PRIVATE_PART = /^(?:d|p|q|dp|dq|qi|k|oth)$/;
/** Words of a schema, which stand where a value would: `{"password": {"type": "string"}}`. */
const SCHEMA = /^(?:type|format|description|title|\$ref)$/;
const FLAG = /^--?[A-Za-z][\w-]{0,60}$/;
const BARE = /[^\s{}[\],:"]{1,9000}/y;

const kindOf = (name: string): SecretKind =>
  /authorization$/i.test(name) ? "authorization" : /cookie$/i.test(name) ? "cookie" : "named_secret";

const PEM_BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY/;
const LONGEST_PEM_LINE = 200;

/** Of a package that is called like a secret: `"cookie": "^0.7.1"`. Nobody's password is one. */
const isVersion = (name: string, value: string): boolean =>
  !isPasswordName(name) && /^(?:[\^~>=<v ]*\d+\.[\dx*]+(?:\.[\w.+-]+)?|\*|latest)$/.test(value);

const isUserFlag = (text: string): boolean => text === "-u" || text === "--user";

/**
 * The edits that take secrets out of JSON. One pass; only what goes is written anew, every other byte stays (V9).
 * @param text that `JSON.parse` accepts
 * @param redactLeaf for a string that is no key: its text without secrets
 */
export const jsonEdits = (text: string, redactLeaf: (text: string) => string): readonly Edit[] => {
  const edits: Edit[] = [];
  const frames: Frame[] = [];
  const known = new Map<string, boolean>();
  /** Names repeat: each is looked at once. */
  const isSecret = (name: string): boolean => {
    let secret = known.get(name);
    if (secret === undefined) {
      secret = isSecretName(name);
      known.set(name, secret);
    }
    return secret;
  };
  const secretHere = (frame: Frame | undefined): boolean =>
    frame !== undefined && (frame.secret || (!frame.isArray && isSecret(frame.key))) && !SCHEMA.test(frame.key);
  /** Whether what this name holds is all secret. A package of that name (`node_modules/cookie`) is not. */
  const holdsSecrets = (frame: Frame | undefined): boolean =>
    secretHere(frame) && (frame?.secret === true || !/[/@]|(?:cookies?|jwt|bearer|sig)$/i.test(frame?.key ?? ""));

  const open = (isArray: boolean): void => {
    const secret = holdsSecrets(frames.at(-1));
    frames.push({ isArray, secret, key: "", previous: "", namesSecret: false, isKey: false, inPem: false, held: [] });
  };
  const close = (): void => {
    const frame = frames.pop();
    for (const { name, edit } of frame?.held ?? [])
      if (name === "value" ? frame?.namesSecret : frame?.isKey) edits.push(edit);
  };
  const hide = (start: number, end: number): void => {
    edits.push({ start, end, by: JSON.stringify(mark(kindOf(frames.at(-1)?.key ?? ""))) });
  };

  const string = (start: number, end: number): void => {
    const frame = frames.at(-1);
    const json = text.slice(start, end);
    const value = json.includes("\\") ? String(JSON.parse(json)) : json.slice(1, -1);
    if (value === "" || isMark(value)) return;
    const { isArray = false, key = "", previous = "" } = frame ?? {};
    if (frame !== undefined && isArray) {
      frame.previous = value;
      const inPem = frame.inPem || PEM_BEGIN.test(value);
      frame.inPem = inPem && !value.includes("-----END ");
      if (inPem && value.length < LONGEST_PEM_LINE) {
        edits.push({ start, end, by: JSON.stringify(mark("pem")) });
        return;
      }
    }
    const afterFlag = isArray && FLAG.test(previous) && !value.startsWith("-") && isSecretName(previous);
    const afterUser = isArray && isUserFlag(previous) && value.includes(":");
    if ((secretHere(frame) && !isVersion(key, value)) || afterFlag || afterUser) {
      hide(start, end);
      return;
    }
    if (frame !== undefined && !isArray) {
      if (NAMING.test(key) && isSecretName(value)) frame.namesSecret = true;
      if (key === "kty") frame.isKey = true;
      const held = { start, end, by: JSON.stringify(mark("named_secret")) };
      if (VALUE.test(key)) frame.held.push({ name: "value", edit: held });
      if (PRIVATE_PART.test(key)) frame.held.push({ name: "key", edit: held });
    }
    const redacted = redactLeaf(value);
    if (redacted !== value) edits.push({ start, end, by: JSON.stringify(redacted) });
  };

  for (let at = 0; at < text.length; ) {
    const unit = text[at];
    if (unit === '"') {
      const end = endOfString(text, at);
      const frame = frames.at(-1);
      const colon = /\s{0,9000}:/y;
      colon.lastIndex = end;
      if (frame !== undefined && !frame.isArray && colon.test(text)) {
        const json = text.slice(at, end);
        frame.key = json.includes("\\") ? String(JSON.parse(json)) : json.slice(1, -1);
        at = colon.lastIndex;
        continue;
      }
      string(at, end);
      at = end;
    } else if (unit === "{" || unit === "[") {
      open(unit === "[");
      at++;
    } else if (unit === "}" || unit === "]") {
      close();
      at++;
    } else {
      BARE.lastIndex = at;
      const word = BARE.exec(text)?.[0];
      // A number under such a name: a PIN. Truth values and null say whether there is a secret.
      if (word !== undefined && /^-?\d/.test(word) && /\d{4}/.test(word) && secretHere(frames.at(-1)))
        hide(at, at + word.length);
      at += word?.length ?? 1;
    }
  }
  return edits.sort((a, b) => a.start - b.start).filter((edit, index, all) => edit.start !== all[index - 1]?.start);
};
