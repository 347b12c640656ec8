/** A request from its raw text to everything the simulator needs to answer it, refused where the API would refuse it. */
import type { Catalogue } from "./catalogue.ts";
import { ApiError } from "./errors.ts";
import type { JsonObject } from "./json.ts";
import { isObject, member, readJson, write } from "./json.ts";
import type { Segment } from "./prefix.ts";
import { chain, digestOf, segmentsOf } from "./prefix.ts";
import type { Binding } from "./thinking.ts";
import { isThinking, verify } from "./thinking.ts";
import type { TokenMemory } from "./tokens.ts";
import { MESSAGE_TOKENS, TOOLS_TOKENS } from "./tokens.ts";
import type { Checked } from "./validate.ts";
import { checkMarks, checkMedia, checkRequest } from "./validate.ts";

/** Size limit of a request's body. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;

export interface SimRequest extends Checked {
  readonly body: JsonObject;
  readonly bodyText: string;
  readonly segments: readonly Segment[];
  /** Tokens of each segment, as the model counts them. */
  readonly tokens: readonly number[];
  readonly promptTokens: number;
  /** Chain for the prompt cache. */
  readonly cacheLinks: readonly string[];
  /** Digest of the whole prompt, for what the answer's thinking is bound to. */
  readonly promptLink: string;
  readonly binding: Binding;
  /** Paths of thinking blocks that were dropped instead of refused. */
  readonly droppedPaths: readonly string[];
}

export interface ReadOptions {
  readonly apiKey: string;
  readonly version: string;
  readonly betas: string;
  readonly countsOnly: boolean;
}

const countSegments = (segments: readonly Segment[], factor: number, memory: TokenMemory): readonly number[] => {
  let tools = false;
  return segments.map((one) => {
    const opening = one.part === "tools" && !tools ? TOOLS_TOKENS : one.opensMessage ? MESSAGE_TOKENS : 0;
    tools ||= one.part === "tools";
    return Math.ceil((opening + memory(one.digest, one.block, one.written)) * factor);
  });
};

const checkWindow = (checked: Checked, promptTokens: number): void => {
  const { model, maxTokens } = checked;
  if (promptTokens > model.maxInputTokens) {
    throw new ApiError(400, `prompt is too long: ${promptTokens} tokens > ${model.maxInputTokens} maximum`);
  }
  if (model.overrun === "reject" && promptTokens + maxTokens > model.maxInputTokens) {
    throw new ApiError(
      400,
      `input length and \`max_tokens\` exceed context limit: ${promptTokens} + ${maxTokens} > ${model.maxInputTokens}, decrease input length or \`max_tokens\` and try again`,
    );
  }
};

/**
 * Reads, checks and counts a request.
 * @throws ApiError as the API would answer
 */
export const readRequest = (
  bodyText: string,
  options: ReadOptions,
  catalogue: Catalogue,
  memory: TokenMemory,
): SimRequest => {
  const { value, node } = readJson(bodyText);
  const checked = checkRequest(value, catalogue, options.version, options.betas, options.countsOnly);
  const body = isObject(value) ? value : {};
  const { model } = checked;
  const sent = segmentsOf(body, node);
  checkMarks(sent);
  checkMedia(sent, model);

  const binding: Binding = { model: model.id, apiKey: options.apiKey, userId: checked.userId };
  const links = chain(sent, "thinking");
  const seed = digestOf("thinking");
  const segments = sent.filter(
    (one, index) =>
      !isThinking(one.block) ||
      verify(one.block, one.path, links[index - 1] ?? seed, binding, {
        bound: model.bindsThinking,
        drops: checked.dropsUnboundThinking,
      }),
  );

  const tokens = countSegments(segments, model.tokenFactor, memory);
  const promptTokens = tokens.reduce((sum, count) => sum + count, 0);
  if (!options.countsOnly) checkWindow(checked, promptTokens);

  const hasImages = segments.some((one) => one.written.includes('"type":"image"'));
  const parameter = (name: string): string => {
    const found = member(node, name);
    return found === undefined ? "" : write(found);
  };
  const messageSeed = [parameter("tool_choice"), parameter("thinking"), String(hasImages)].join("\0");
  return {
    ...checked,
    body,
    bodyText,
    segments,
    tokens,
    promptTokens,
    cacheLinks: chain(segments, `cache\0${options.apiKey}\0${model.id}`, messageSeed),
    promptLink: links.at(-1) ?? seed,
    binding,
    droppedPaths: sent.filter((one) => !segments.includes(one)).map((one) => one.path),
  };
};
