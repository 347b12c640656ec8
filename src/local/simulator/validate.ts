/** What a whole request must hold to, beyond its messages. Every failure is a 400 (404 for the model) that names its path. */
import type { Catalogue, SimModel } from "./catalogue.ts";
import {
  at,
  expectArray,
  expectBoolean,
  expectCacheControl,
  expectInteger,
  expectKeys,
  expectObject,
  expectOneOf,
  expectPattern,
  expectString,
  expectText,
} from "./check.ts";
import { invalid } from "./errors.ts";
import type { Json, JsonObject } from "./json.ts";
import { isArray, isObject } from "./json.ts";
import type { Segment } from "./prefix.ts";
import { pdfPages } from "./tokens.ts";
import type { SimMessage } from "./validate-messages.ts";
import { checkMessages } from "./validate-messages.ts";

/** Since this version sampling parameters are unknown fields. */
export const CURRENT_VERSION = "2026-10-21";
export const VERSIONS: readonly string[] = [CURRENT_VERSION, "2023-06-01"];
export const DROP_BLOCK_BETA = "thinking-binding-controls-2026-08-01";

const SHARED_FIELDS = [
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "thinking",
  "cache_control",
  "output_config",
];
const OWN_FIELDS = [
  "max_tokens",
  "stream",
  "metadata",
  "stop_sequences",
  "service_tier",
  "container",
  "diagnostics",
  "inference_geo",
  "speed",
];
const SAMPLING_FIELDS = ["temperature", "top_p", "top_k"];
const FUNCTION_FIELDS = [
  "type",
  "name",
  "description",
  "input_schema",
  "cache_control",
  "strict",
  "defer_loading",
  "eager_input_streaming",
  "input_examples",
  "allowed_callers",
];
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const SERVER_TOOL =
  /^(web_search|web_fetch|code_execution|bash|text_editor|memory|tool_search_tool|computer|browser)\w*_20\d{6}$/;
const MAX_MARKS = 4;
/** Images and PDF pages in one request. */
const MAX_MEDIA = 600;
const MAX_MEDIA_SMALL_WINDOW = 100;
const SMALL_WINDOW_TOKENS = 200_000;

export interface Checked {
  readonly model: SimModel;
  readonly messages: readonly SimMessage[];
  readonly tools: readonly JsonObject[];
  readonly system: string;
  /** Tokens; 0 when only counting. */
  readonly maxTokens: number;
  readonly stream: boolean;
  readonly thinks: boolean;
  readonly omitsThinking: boolean;
  readonly dropsUnboundThinking: boolean;
  readonly userId: string;
}

const checkSystem = (value: Json | undefined): string => {
  if (value === undefined || typeof value === "string") return value ?? "";
  const texts = expectArray(value, "system").map((one, index) => {
    const path = `system.${index}`;
    const block = expectObject(one, path);
    expectOneOf(block.type, at(path, "type"), ["text"]);
    expectKeys(block, path, ["type", "text", "cache_control", "citations"]);
    expectCacheControl(block.cache_control, at(path, "cache_control"));
    return expectText(block.text, at(path, "text"));
  });
  return texts.join("\n\n");
};

const checkTool = (value: Json, path: string): JsonObject => {
  const tool = expectObject(value, path);
  const type = tool.type ?? "custom";
  expectCacheControl(tool.cache_control, at(path, "cache_control"));
  expectPattern(tool.name, at(path, "name"), TOOL_NAME);
  if (type !== "custom") {
    if (typeof type === "string" && SERVER_TOOL.test(type)) return tool;
    throw invalid(path, `Input tag '${String(type)}' found using 'type' does not match any of the expected tags`);
  }
  expectKeys(tool, path, FUNCTION_FIELDS);
  if (tool.description !== undefined) expectString(tool.description, at(path, "description"));
  const schema = expectObject(tool.input_schema, at(path, "input_schema"));
  expectOneOf(schema.type, at(path, "input_schema.type"), ["object"]);
  return tool;
};

const checkTools = (value: Json | undefined): readonly JsonObject[] => {
  if (value === undefined) return [];
  const tools = expectArray(value, "tools").map((tool, index) => checkTool(tool, `tools.${index}`));
  const names = tools.map((tool) => String(tool.name));
  const twice = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (twice >= 0) throw invalid(`tools.${twice}.name`, `Tool names must be unique, found twice: ${names[twice]}`);
  return tools;
};

/** @returns whether the choice forces a tool call */
const checkToolChoice = (value: Json | undefined, tools: readonly JsonObject[]): boolean => {
  if (value === undefined) return false;
  const choice = expectObject(value, "tool_choice");
  const type = expectOneOf(choice.type, "tool_choice.type", ["auto", "any", "tool", "none"]);
  expectKeys(
    choice,
    "tool_choice",
    type === "tool" ? ["type", "name", "disable_parallel_tool_use"] : ["type", "disable_parallel_tool_use"],
  );
  if (tools.length === 0) throw invalid("tool_choice", "may only be specified while providing tools");
  if (type === "tool") {
    const name = expectString(choice.name, "tool_choice.name");
    if (!tools.some((tool) => tool.name === name))
      throw invalid("tool_choice.name", `Tool '${name}' not found in provided tools`);
  }
  return type === "tool" || type === "any";
};

const checkThinking = (value: Json | undefined, maxTokens: number | undefined, betas: string, forced: boolean) => {
  if (value === undefined) return { thinks: false, omitsThinking: false, dropsUnboundThinking: false };
  const setting = expectObject(value, "thinking");
  const type = expectOneOf(setting.type, "thinking.type", ["adaptive", "enabled", "disabled"]);
  const binding =
    type !== "disabled" && betas.split(",").some((beta) => beta.trim() === DROP_BLOCK_BETA) ? ["block_binding"] : [];
  const own = type === "disabled" ? [] : type === "enabled" ? ["budget_tokens", "display"] : ["display"];
  expectKeys(setting, "thinking", ["type", ...own, ...binding]);
  if (type === "enabled") {
    const budget = expectInteger(setting.budget_tokens, "thinking.budget_tokens", 1_024);
    if (maxTokens !== undefined && budget >= maxTokens) {
      throw invalid("max_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`");
    }
  }
  if (setting.display !== undefined && setting.display !== null) {
    expectOneOf(setting.display, "thinking.display", ["summarized", "omitted"]);
  }
  if (type !== "disabled" && forced)
    throw invalid("thinking", "Thinking may not be enabled when tool_choice forces tool use.");
  const behaviour = isObject(setting.block_binding) ? setting.block_binding.prefix_mismatch_behavior : undefined;
  if (behaviour !== undefined) {
    expectOneOf(behaviour, "thinking.block_binding.prefix_mismatch_behavior", ["error", "drop_block"]);
  }
  return {
    thinks: type !== "disabled",
    omitsThinking: setting.display === "omitted",
    dropsUnboundThinking: behaviour === "drop_block",
  };
};

/** Older models want the thinking of the turn in progress back before its tool calls. */
const checkThinkingBeforeCalls = (
  messages: readonly SimMessage[],
  thinking: Json | undefined,
  model: SimModel,
): void => {
  if (model.bindsThinking || !isObject(thinking) || thinking.type !== "enabled") return;
  const index = messages.findLastIndex((message) => message.role === "assistant");
  const message = messages[index];
  if (!message?.blocks.some((block) => block.type === "tool_use") || index < messages.length - 2) return;
  const first = String(message.blocks[0]?.type);
  if (first === "thinking" || first === "redacted_thinking") return;
  throw invalid(
    `messages.${index}.content.0.type`,
    `Expected \`thinking\` or \`redacted_thinking\`, but found \`${first}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`,
  );
};

const checkMetadata = (value: Json | undefined): string => {
  if (value === undefined) return "";
  const metadata = expectObject(value, "metadata");
  expectKeys(metadata, "metadata", ["user_id"]);
  const id = metadata.user_id;
  return id === undefined || id === null ? "" : expectString(id, "metadata.user_id");
};

/**
 * Checks a request's body.
 * @param version the `anthropic-version` header
 * @param betas the `anthropic-beta` header, "" for none
 * @param countsOnly whether it came to `count_tokens`, which takes fewer fields
 * @throws ApiError
 */
export const checkRequest = (
  body: Json,
  catalogue: Catalogue,
  version: string,
  betas: string,
  countsOnly: boolean,
): Checked => {
  if (!isObject(body)) throw invalid("body", "Input should be a valid dictionary");
  const sampling = version === CURRENT_VERSION || countsOnly ? [] : SAMPLING_FIELDS;
  expectKeys(body, "", [...SHARED_FIELDS, ...(countsOnly ? [] : OWN_FIELDS), ...sampling]);
  const model = catalogue.find(expectString(body.model, "model"));
  const maxTokens = countsOnly ? undefined : expectInteger(body.max_tokens, "max_tokens", 1);
  if (maxTokens !== undefined && maxTokens > model.maxOutputTokens) {
    throw invalid(
      "max_tokens",
      `${maxTokens} > ${model.maxOutputTokens}, which is the maximum allowed number of output tokens for ${model.id}`,
    );
  }
  if (body.stream !== undefined) expectBoolean(body.stream, "stream");
  for (const [index, stop] of expectArray(body.stop_sequences ?? [], "stop_sequences").entries()) {
    expectText(stop, `stop_sequences.${index}`);
  }
  const userId = checkMetadata(body.metadata);
  expectCacheControl(body.cache_control, "cache_control");
  const system = checkSystem(body.system);
  const tools = checkTools(body.tools);
  const forced = checkToolChoice(body.tool_choice, tools);
  const thinking = checkThinking(body.thinking, maxTokens, betas, forced);
  const messages = checkMessages(body.messages, model);
  checkThinkingBeforeCalls(messages, body.thinking, model);
  return {
    model,
    messages,
    tools,
    system,
    maxTokens: maxTokens ?? 0,
    stream: body.stream === true,
    userId,
    ...thinking,
  };
};

const innerMarks = (one: Segment): readonly Json[] => {
  const content = one.block.content;
  return isArray(content) ? content.filter((inner) => isObject(inner) && isObject(inner.cache_control)) : [];
};

/** At most four cache marks, the longer lasting first. @throws ApiError 400 */
export const checkMarks = (segments: readonly Segment[]): void => {
  const marked = segments.filter((one) => one.mark !== undefined);
  const count = marked.length + segments.reduce((sum, one) => sum + innerMarks(one).length, 0);
  if (count > MAX_MARKS) {
    const fifth = marked[MAX_MARKS]?.path ?? marked.at(-1)?.path ?? "messages";
    throw invalid(
      `${fifth}.cache_control`,
      `A maximum of ${MAX_MARKS} blocks with cache_control may be provided. Found ${count}.`,
    );
  }
  let short = false;
  for (const one of marked) {
    if (one.mark === "5m") short = true;
    else if (short) {
      throw invalid(
        `${one.path}.cache_control.ttl`,
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Blocks are processed in the order `tools`, `system`, `messages`.",
      );
    }
  }
};

const mediaIn = (block: JsonObject): number => {
  if (block.type === "image") return 1;
  const source = block.source;
  if (block.type === "document" && isObject(source)) {
    return source.type === "base64" ? pdfPages(String(source.data)) : 0;
  }
  const content = block.content;
  return isArray(content) ? content.filter(isObject).reduce((sum, inner) => sum + mediaIn(inner), 0) : 0;
};

/** At most 600 images and PDF pages, 100 on models with a small window. @throws ApiError 400 */
export const checkMedia = (segments: readonly Segment[], model: SimModel): void => {
  const most = model.maxInputTokens <= SMALL_WINDOW_TOKENS ? MAX_MEDIA_SMALL_WINDOW : MAX_MEDIA;
  let count = 0;
  for (const one of segments) {
    count += mediaIn(one.block);
    if (count > most) throw invalid(one.path, `too many images and document pages: ${count} > ${most} maximum`);
  }
};
