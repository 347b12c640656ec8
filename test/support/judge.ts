/**
 * Judges requests as the provider would, by the simulator's own rules (messages-api.md), and counts them. A session sends almost the same
 * messages again and again, so each distinct message is read once.
 */
import { type Catalogue, createCatalogue } from "../../src/local/simulator/catalogue.ts";
import { isObject, type Json, type JsonNode, type JsonObject, readJson } from "../../src/local/simulator/json.ts";
import { chain, digestOf, type Segment, segmentsOf } from "../../src/local/simulator/prefix.ts";
import { readRequest } from "../../src/local/simulator/request.ts";
import { type Binding, isThinking, sign, verify } from "../../src/local/simulator/thinking.ts";
import { createTokenMemory, MESSAGE_TOKENS, TOOLS_TOKENS } from "../../src/local/simulator/tokens.ts";
import { CURRENT_VERSION, checkMarks, checkMedia, checkRequest } from "../../src/local/simulator/validate.ts";
import { withCacheMark } from "../../src/models/cache-mark.ts";
import { anthropicBody } from "../../src/models/request-body.ts";
import type { ModelRequest, ViewMessage } from "../../src/protocol/messages.ts";

const API_KEY = "sk-sim-test";
const SEED = "thinking";

export interface Judge {
  /**
   * Checks a request.
   * @returns what the answer's thinking is bound to
   * @throws ApiError as the API would answer
   */
  check(request: ModelRequest): Promise<string>;
  /** A thinking block of an answer to the request with this link, as JSON text. */
  thought(text: string, link: string): string;
  /** The tokens of a request that was checked, by a byte-pair encoding. */
  count(request: ModelRequest): Promise<number>;
  /** Checks a request once more, the slow way: its body as text, from the first byte. @returns as `check` */
  checkBody(request: ModelRequest): Promise<string>;
}

interface Read {
  readonly value: Json;
  readonly segments: readonly Segment[];
}

const noMedia = async (content: string): Promise<string> => content;

export const createJudge = (model: string, windowTokens: number): Judge => {
  const catalogue: Catalogue = createCatalogue({ [model]: { maxInputTokens: windowTokens } });
  // Sizes are the simulation's own matter.
  const unbounded = createCatalogue({ [model]: { maxInputTokens: Number.MAX_SAFE_INTEGER } });
  const known = catalogue.find(model);
  const binding: Binding = { model: known.id, apiKey: API_KEY, userId: "" };
  const heads = new Map<string, { readonly body: JsonObject; readonly segments: readonly Segment[] }>();
  const messages = new Map<string, Read>();
  const memory = createTokenMemory();

  const headOf = async (request: ModelRequest) => {
    const text = await anthropicBody({ ...request, messages: [] }, { stream: false, promptCaching: true }, noMedia);
    const seen = heads.get(text);
    if (seen !== undefined) return seen;
    const { value, node } = readJson(text);
    const body = isObject(value) ? value : {};
    const read = { body, segments: segmentsOf(body, node) };
    heads.set(text, read);
    return read;
  };
  const readMessage = ({ role, content, cacheMark }: ViewMessage): Read => {
    const marked = cacheMark === true ? withCacheMark(content) : content;
    const key = `${role}${marked}`;
    const seen = messages.get(key);
    if (seen !== undefined) return seen;
    const { value, node } = readJson(marked);
    const message: JsonObject = { role, content: value };
    const list: JsonNode = {
      kind: "object",
      entries: [["messages", { kind: "array", items: [{ kind: "object", entries: [["content", node]] }] }]],
    };
    const read: Read = { value: message, segments: segmentsOf({ messages: [message] }, list) };
    messages.set(key, read);
    return read;
  };
  const segmentsOfRequest = async (request: ModelRequest): Promise<readonly Segment[]> => {
    const head = await headOf(request);
    return [...head.segments, ...request.messages.flatMap((message) => readMessage(message).segments)];
  };

  return {
    check: async (request) => {
      const head = await headOf(request);
      const body: JsonObject = {
        ...head.body,
        messages: request.messages.map((message) => readMessage(message).value),
      };
      checkRequest(body, catalogue, CURRENT_VERSION, "", false);
      const segments = await segmentsOfRequest(request);
      checkMarks(segments);
      checkMedia(segments, known);
      const links = chain(segments, SEED);
      for (const [index, one] of segments.entries()) {
        if (!isThinking(one.block)) continue;
        const before = links[index - 1] ?? digestOf(SEED);
        verify(one.block, `segment ${index}`, before, binding, { bound: known.bindsThinking, drops: false });
      }
      return links.at(-1) ?? digestOf(SEED);
    },
    thought: (text, link) =>
      JSON.stringify({ type: "thinking", thinking: text, signature: sign("thinking", text, link, binding) }),
    count: async (request) => {
      const segments = await segmentsOfRequest(request);
      const opening = segments.some((one) => one.part === "tools") ? TOOLS_TOKENS : 0;
      return segments.reduce(
        (sum, one) =>
          sum +
          Math.ceil(
            ((one.opensMessage ? MESSAGE_TOKENS : 0) + memory(one.digest, one.block, one.written)) * known.tokenFactor,
          ),
        opening,
      );
    },
    checkBody: async (request) => {
      const text = await anthropicBody(request, { stream: true, promptCaching: true }, noMedia);
      const options = { apiKey: API_KEY, version: CURRENT_VERSION, betas: "", countsOnly: false };
      return readRequest(text, options, unbounded, () => 0).promptLink;
    },
  };
};
