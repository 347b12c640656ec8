/** The session's own tools: HTTP endpoints of the caller, tools that the caller runs itself, and tools that the provider runs. */
import { z } from "zod";
import type { Middleware, RunContext } from "../protocol/middleware.ts";
import { checkOutboundUrl } from "../protocol/outbound-url.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../protocol/tool.ts";

/** Most bytes read of a tool's answer: a file of this size is already too much for any window. */
const MAX_ANSWER_BYTES = 1_048_576;

const httpTool = z.object({
  type: z.literal("http"),
  name: z.string(),
  description: z.string(),
  input_schema: z.record(z.string(), z.unknown()),
  url: z.string(),
  headers: z.record(z.string(), z.string()).optional(),
  timeout_ms: z.number().optional(),
  idempotent: z.boolean().optional(),
});

/** A tool that the caller runs; without a type, as the Messages API has it. */
const customTool = z.object({
  type: z.literal("custom").optional(),
  name: z.string(),
  description: z.string().optional(),
  input_schema: z.record(z.string(), z.unknown()),
});

type HttpTool = z.infer<typeof httpTool>;

/** What an endpoint may answer instead of plain text. */
const structuredAnswer = z.object({
  content: z.union([z.string(), z.array(z.object({ type: z.literal("text"), text: z.string() }))]),
  is_error: z.boolean().optional(),
});

export interface CallerToolsOptions {
  /** The session's `tools`, as checked when they were set. */
  readonly tools: readonly Readonly<Record<string, unknown>>[];
  readonly fetch: typeof fetch;
  readonly allowPrivateUrls: boolean;
}

const readCapped = async (response: Response): Promise<string | undefined> => {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let read = 0;
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    read += value.byteLength;
    if (read > MAX_ANSWER_BYTES) {
      await reader.cancel();
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
};

const readAnswer = (response: Response, text: string): ToolResult => {
  if (!response.ok)
    return toolError(`The endpoint answered with status ${response.status}.${text.trim() === "" ? "" : `\n${text}`}`);
  if (!(response.headers.get("content-type") ?? "").includes("json")) return { content: text };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return toolError("The endpoint said that it answers with JSON, but its answer is not JSON.");
  }
  const structured = structuredAnswer.safeParse(json);
  if (!structured.success) return { content: text };
  return { content: structured.data.content, ...(structured.data.is_error === true ? { isError: true } : {}) };
};

const request = (tool: HttpTool, { callId, inputText }: ToolContext, run: RunContext): RequestInit => ({
  method: "POST",
  // A redirect could lead to where the URL itself may not.
  redirect: "manual",
  headers: { ...tool.headers, "content-type": "application/json", "idempotency-key": callId },
  // The input is joined in as it was written: a number that JSON.parse would round belongs to the endpoint, not to us.
  body: `{"tool_use_id":${JSON.stringify(callId)},"name":${JSON.stringify(tool.name)},"session_id":"${run.sessionId}","run_id":"${run.runId}","input":${inputText}}`,
});

const callerTool = (tool: HttpTool, options: CallerToolsOptions, run: RunContext): Tool => ({
  name: tool.name,
  description: tool.description,
  inputSchema: tool.input_schema,
  idempotent: tool.idempotent ?? false,
  parallel: true,
  offload: true,
  ...(tool.timeout_ms === undefined ? {} : { timeoutMs: tool.timeout_ms }),
  call: async (input, context) => {
    const { signal } = context;
    if (typeof input !== "object" || input === null || Array.isArray(input)) {
      return toolError(
        `The input of ${JSON.stringify(tool.name)} must be an object. Expected input: ${JSON.stringify(tool.input_schema)}`,
      );
    }
    const refused = checkOutboundUrl(tool.url, options.allowPrivateUrls);
    if (refused !== null)
      return toolError(`The endpoint of ${JSON.stringify(tool.name)} may not be called: ${refused}`);
    let response: Response;
    try {
      response = await options.fetch(tool.url, { ...request(tool, context, run), signal });
    } catch (error) {
      if (signal.aborted) throw error;
      return toolError(
        `The endpoint of ${JSON.stringify(tool.name)} could not be reached. Whether it got the call is unknown.`,
      );
    }
    if (response.status >= 300 && response.status < 400) {
      return toolError(`The endpoint of ${JSON.stringify(tool.name)} answered with a redirect, which is not followed.`);
    }
    const text = await readCapped(response);
    if (text === undefined) return toolError(`The endpoint's answer is larger than ${MAX_ANSWER_BYTES} bytes.`);
    return readAnswer(response, text);
  },
});

const waitedFor = (tool: z.infer<typeof customTool>): Tool => ({
  name: tool.name,
  description: tool.description ?? "",
  inputSchema: tool.input_schema,
  idempotent: false,
  parallel: true,
  offload: true,
  byCaller: true,
  call: async () => toolError(`The tool ${JSON.stringify(tool.name)} is run by the caller.`),
});

/** Offers the session's own tools. */
export const callerToolsMiddleware = (options: CallerToolsOptions): Middleware => ({
  name: "CallerTools",
  assemble: (draft, run) => {
    for (const given of options.tools) {
      const http = httpTool.safeParse(given);
      const custom = customTool.safeParse(given);
      if (http.success) draft.tools.push(callerTool(http.data, options, run));
      else if (custom.success) draft.tools.push(waitedFor(custom.data));
      else draft.providerTools.push({ kind: "provider", name: String(given.name), definition: given });
    }
  },
});
