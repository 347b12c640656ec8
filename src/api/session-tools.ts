/** The tools that a session is given: HTTP endpoints of the caller, tools that the caller runs itself, and tools that the provider runs. */
import { z } from "@hono/zod-openapi";
import { checkOutboundUrl } from "../protocol/outbound-url.ts";
import { OWN_TOOLS } from "../protocol/own-tools.ts";
import { invalid } from "./errors.ts";
import { boundedText, holdsNul } from "./text.ts";

/** Most tools of a session (api.md, "Limits"). */
const MAX_TOOLS = 200;
const MAX_HEADERS = 32;
/** As long as a turn may take at most. */
const MAX_TIMEOUT_MS = 600_000;

/** Shown instead of a header's value, which may be a secret. */
export const HIDDEN = "[hidden]";

const toolName = z
  .string()
  .regex(/^[a-zA-Z0-9_-]{1,64}$/, "expected 1 to 64 letters, digits, _ or -")
  .refine((name) => !OWN_TOOLS.includes(name), "is the name of one of hango's own tools");

const headers = z
  .record(
    z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, "expected the name of an HTTP header"),
    z
      .string()
      .max(4_096)
      .regex(/^[\t\x20-\x7e]*$/, "expected visible ASCII characters"),
  )
  .refine((given) => Object.keys(given).length <= MAX_HEADERS, `at most ${MAX_HEADERS} headers`);

const inputSchema = z
  .looseObject({ type: z.literal("object", 'expected "object"') })
  .refine((schema) => !holdsNul(schema), "must not contain NUL characters")
  .openapi({ description: "JSON Schema of the tool's input.", example: { type: "object", properties: {} } });

const httpTool = z
  .strictObject({
    type: z.literal("http"),
    name: toolName,
    description: boundedText(20_000, 1).openapi({
      description: "Tells the model what the tool does and when to use it.",
    }),
    input_schema: inputSchema,
    url: z.string().openapi({
      description: "Called with POST. https only, and no private address.",
      example: "https://example.com/tools/search",
    }),
    headers: headers.optional().openapi({ description: "Sent with every call; values are shown as `[hidden]`." }),
    timeout_ms: z.int().min(100).max(MAX_TIMEOUT_MS).optional(),
    idempotent: z
      .boolean()
      .optional()
      .openapi({ description: "May be called again when it is unknown whether it was." }),
  })
  .openapi("HttpTool");

const customTool = z
  .strictObject({
    type: z.literal("custom").optional(),
    name: toolName,
    description: boundedText(20_000, 1).openapi({
      description: "Tells the model what the tool does and when to use it.",
    }),
    input_schema: inputSchema,
  })
  .openapi("CustomTool", {
    description:
      "A tool that the caller runs: the run stops with `requires_action`, and goes on when `POST /v1/runs/{id}/tool_results` has brought the results.",
  });

const providerTool = z
  .looseObject({
    type: z.string().regex(/^(web_search|web_fetch|code_execution)_\w{1,64}$/, {
      error: 'expected "http", "custom" (or no type), "web_search_...", "web_fetch_..." or "code_execution_..."',
      abort: true,
    }),
    name: toolName,
  })
  .refine((tool) => !holdsNul(tool), "must not contain NUL characters")
  .openapi("ProviderTool", { description: "A tool that the model provider runs; passed through as given." });

export const toolSchema = z.union([httpTool, customTool, providerTool]).openapi("Tool");
export type Tool = z.infer<typeof toolSchema>;

/** The `tools` of a request: at most 200, their names unique. */
export const toolsSchema = z
  .array(toolSchema)
  .max(MAX_TOOLS)
  .superRefine((tools, context) => {
    const seen = new Set<string>();
    tools.forEach((tool, index) => {
      if (seen.has(tool.name)) context.addIssue({ code: "custom", path: [index, "name"], message: "is used twice" });
      seen.add(tool.name);
    });
  });

const isHttp = (tool: Tool): tool is z.infer<typeof httpTool> => tool.type === "http";

/**
 * @param within where the tools stand in the body, `session.` for instance
 * @throws ApiError `invalid_request` for an endpoint that hango will not call, or a hidden value that was sent back
 */
export const checkTools = (tools: readonly Tool[], allowPrivate: boolean, within = ""): void => {
  tools.forEach((tool, index) => {
    if (!isHttp(tool)) return;
    const reason = checkOutboundUrl(tool.url, allowPrivate);
    if (reason !== null) throw invalid(`${within}tools[${index}].url`, reason);
    if (Object.values(tool.headers ?? {}).includes(HIDDEN)) {
      throw invalid(
        `${within}tools[${index}].headers`,
        `${HIDDEN} is what hango shows instead of a value; give the value itself`,
      );
    }
  });
};

/** The tools as they are shown: without the values of headers. */
export const shownTools = (
  tools: readonly Readonly<Record<string, unknown>>[],
): readonly Readonly<Record<string, unknown>>[] =>
  tools.map((tool) => {
    const { headers: given } = tool;
    if (tool.type !== "http" || typeof given !== "object" || given === null) return tool;
    return { ...tool, headers: Object.fromEntries(Object.keys(given).map((name) => [name, HIDDEN])) };
  });
