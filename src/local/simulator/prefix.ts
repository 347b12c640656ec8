/**
 * The prompt as a chain of segments: tools, system blocks, then message blocks, each with a digest of what the model sees.
 * The prompt cache and the binding of thinking are both statements about this chain.
 */
import { hash } from "node:crypto";
import type { Json, JsonNode, JsonObject } from "./json.ts";
import { isArray, isObject, item, member, write } from "./json.ts";

export type Ttl = "5m" | "1h";

export interface Segment {
  readonly part: "tools" | "system" | "messages";
  /** Where it stands in the request, `messages.3.content.0`. */
  readonly path: string;
  readonly role: string;
  /** Whether it opens a message. */
  readonly opensMessage: boolean;
  readonly block: JsonObject;
  /** JSON text of the block without cache marks. */
  readonly written: string;
  /** Digest of part, role and text. */
  readonly digest: string;
  readonly mark: Ttl | undefined;
}

/** Part of a block that says nothing to the model. */
const SILENT_KEYS: ReadonlySet<string> = new Set(["cache_control", "caller"]);

/**
 * A block's JSON text as it counts for identity: without cache marks and nulls, its own keys sorted. Everything deeper, above
 * all a tool's input, stays in the order and the number texts it came in.
 */
export const writeBlock = (node: JsonNode): string => {
  if (node.kind !== "object") return write(node);
  const entries = node.entries
    .filter(([key, value]) => !SILENT_KEYS.has(key) && !(value.kind === "scalar" && value.text === "null"))
    .map(([key, value]): readonly [string, string] => [
      key,
      key === "content" && value.kind === "array" ? `[${value.items.map(writeBlock).join(",")}]` : write(value),
    ])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
};

const markOf = (block: JsonObject): Ttl | undefined => {
  const mark = block.cache_control;
  if (!isObject(mark)) return undefined;
  return mark.ttl === "1h" ? "1h" : "5m";
};

export const digestOf = (...parts: readonly string[]): string => hash("sha256", parts.join("\0"), "hex");

export const segment = (
  place: Pick<Segment, "part" | "path" | "role" | "opensMessage">,
  block: JsonObject,
  node: JsonNode,
): Segment => {
  const written = writeBlock(node);
  return { ...place, block, written, digest: digestOf(place.part, place.role, written), mark: markOf(block) };
};

const textBlock = (text: string): { readonly value: JsonObject; readonly node: JsonNode } => ({
  value: { type: "text", text },
  node: {
    kind: "object",
    entries: [
      ["type", { kind: "scalar", text: '"text"' }],
      ["text", { kind: "scalar", text: JSON.stringify(text) }],
    ],
  },
});

/** The blocks of `system` or of a message's content; a string is one text block. */
const blocksOf = (value: Json | undefined, node: JsonNode | undefined) => {
  if (typeof value === "string") return value === "" ? [] : [{ ...textBlock(value), suffix: "" }];
  if (!isArray(value)) return [];
  return value.flatMap((inner, index) => {
    const innerNode = item(node, index);
    return isObject(inner) && innerNode !== undefined ? [{ value: inner, node: innerNode, suffix: `.${index}` }] : [];
  });
};

/** The segments of a valid request, in prompt order. A `cache_control` beside `messages` marks the last block that can carry one. */
export const segmentsOf = (body: JsonObject, node: JsonNode): readonly Segment[] => {
  const tools = blocksOf(body.tools, member(node, "tools")).map((block, index) =>
    segment({ part: "tools", path: `tools.${index}`, role: "", opensMessage: false }, block.value, block.node),
  );
  const system = blocksOf(body.system, member(node, "system")).map((block) =>
    segment({ part: "system", path: `system${block.suffix}`, role: "", opensMessage: false }, block.value, block.node),
  );
  const list = isArray(body.messages) ? body.messages : [];
  const messages = list.flatMap((message, at) => {
    if (!isObject(message)) return [];
    const role = String(message.role);
    const contentNode = member(item(member(node, "messages"), at), "content");
    return blocksOf(message.content, contentNode).map((block, index) =>
      segment(
        { part: "messages", path: `messages.${at}.content${block.suffix}`, role, opensMessage: index === 0 },
        block.value,
        block.node,
      ),
    );
  });
  const all = [...tools, ...system, ...messages];
  if (!isObject(body.cache_control)) return all;
  const last = all.findLastIndex((one) => one.block.type !== "thinking" && one.block.type !== "redacted_thinking");
  return all.map((one, index) => (index === last ? { ...one, mark: markOf(body) } : one));
};

/**
 * Digest after each segment: entry n stands for everything up to and with segment n.
 * @param seed what else the chain depends on from its start
 * @param messageSeed what else it depends on from the first message on
 */
export const chain = (segments: readonly Segment[], seed: string, messageSeed = ""): readonly string[] => {
  let link = digestOf(seed);
  let inMessages = false;
  return segments.map((one) => {
    if (one.part === "messages" && !inMessages) {
      inMessages = true;
      link = digestOf(link, messageSeed);
    }
    link = digestOf(link, one.digest);
    return link;
  });
};
