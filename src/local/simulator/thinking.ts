/**
 * Signed thinking. A signature holds two seals: one over the block's own text, and one over everything before it (tools,
 * system, messages; cache marks do not count) together with the model, the organisation and the end user. Models that bind
 * thinking check both, older ones only the first.
 */
import { createHmac } from "node:crypto";
import { invalid } from "./errors.ts";
import type { JsonObject } from "./json.ts";

/** Fixed, so that signatures outlive a restart of the simulator. */
const SECRET = "hango messages-api simulator";
const SEAL_BYTES = 32;

export interface Binding {
  readonly model: string;
  /** Stands for the organisation. */
  readonly apiKey: string;
  readonly userId: string;
}

const seal = (...parts: readonly string[]): Buffer =>
  parts.reduce((mac, part) => mac.update(part).update("\0"), createHmac("sha256", SECRET)).digest();

const sealBefore = (kind: string, text: string, before: string, binding: Binding): Buffer =>
  seal("bound", kind, text, before, binding.model, binding.apiKey, binding.userId);

/**
 * Signs a thinking block.
 * @param text the thinking; "" for redacted thinking
 * @param before digest of the chain of everything before the block
 */
export const sign = (kind: string, text: string, before: string, binding: Binding): string =>
  Buffer.concat([seal("own", kind, text), sealBefore(kind, text, before, binding)]).toString("base64");

/** What is wrong with a block that came back. */
type Fault = "forged" | "unbound";

const faultOf = (block: JsonObject, before: string, binding: Binding, bound: boolean): Fault | undefined => {
  const kind = String(block.type);
  const text = kind === "thinking" ? String(block.thinking) : "";
  const signature = String(kind === "thinking" ? block.signature : block.data);
  const bytes = Buffer.from(signature, "base64");
  if (bytes.toString("base64") !== signature || !bytes.subarray(0, SEAL_BYTES).equals(seal("own", kind, text)))
    return "forged";
  if (bound && !bytes.subarray(SEAL_BYTES).equals(sealBefore(kind, text, before, binding))) return "unbound";
  return undefined;
};

export const isThinking = (block: JsonObject): boolean =>
  block.type === "thinking" || block.type === "redacted_thinking";

/**
 * Checks one block that came back.
 * @param options.bound whether the model binds thinking; `drops` whether an unbound block is dropped instead of refused
 * @returns whether the block stays
 * @throws ApiError 400
 */
export const verify = (
  block: JsonObject,
  path: string,
  before: string,
  binding: Binding,
  options: { readonly bound: boolean; readonly drops: boolean },
): boolean => {
  const fault = faultOf(block, before, binding, options.bound);
  if (fault === undefined) return true;
  if (fault === "unbound" && options.drops) return false;
  const why =
    fault === "forged"
      ? ""
      : ". The block is bound to a different conversation: what came before it has changed since it was created, or it was created for another model, organization or end user.";
  throw invalid(path, `Invalid \`signature\` in \`${String(block.type)}\` block${why}`);
};
