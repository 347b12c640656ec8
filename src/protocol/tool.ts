/** What a tool is, to the loop that runs it and to the rooms that make it. */
import { z } from "zod";
import type { Span } from "../telemetry/tracer.ts";

export type ResultBlock =
  | { readonly type: "text"; readonly text: string }
  | {
      readonly type: "image" | "document";
      readonly source: { readonly type: "base64"; readonly media_type: string; readonly data: string };
    };

/** A tool's answer. An expected failure is a result with `isError`, never an exception: the model can act on it. */
export interface ToolResult {
  /** Text, or blocks where the answer holds an image or a document. Never empty. */
  readonly content: string | readonly ResultBlock[];
  readonly isError?: boolean;
}

export interface ToolContext {
  /** Id of the call that is being answered. */
  readonly callId: string;
  /** The input as the model wrote it, for a tool that passes it on (V9). */
  readonly inputText: string;
  /** Aborted when the tool's time is up or the run ends; a tool that does I/O passes it on. */
  readonly signal: AbortSignal;
  /** The call's span, for what the tool does in spans of its own. */
  readonly span?: Span;
}

export interface Tool {
  readonly name: string;
  /** Written for the model. */
  readonly description: string;
  /** JSON Schema of the input, as the model is shown it. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** May be repeated after a crash without harm (M7). */
  readonly idempotent: boolean;
  /** May run beside other calls of its batch. */
  readonly parallel: boolean;
  /** Whether a result over the offload threshold goes to a file; false for a tool that pages by itself (ladder step 1). */
  readonly offload: boolean;
  /** Longest run in ms, where it differs from the run's default. */
  readonly timeoutMs?: number;
  /** The caller runs it and sends the result: the run waits meanwhile, and `call` is not called. */
  readonly byCaller?: true;
  /** Takes the input as parsed from the model's JSON. Invalid input is answered with an error result that says what was expected. */
  call(input: unknown, context: ToolContext): Promise<ToolResult>;
}

export interface ToolSpec<Input> {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType<Input>;
  readonly idempotent: boolean;
  readonly parallel?: boolean;
  readonly offload?: boolean;
  readonly timeoutMs?: number;
  run(input: Input, context: ToolContext): Promise<ToolResult>;
}

/** An error result with this text. */
export const toolError = (text: string): ToolResult => ({ content: text, isError: true });

/**
 * One line per problem of an invalid input: the path and what was expected.
 * @param name the tool, named in the first line so that the model knows which of its parallel calls is meant
 */
export const describeInvalidInput = (
  name: string,
  error: z.ZodError,
  schema: Readonly<Record<string, unknown>>,
): string =>
  [
    `Invalid input for the tool "${name}":`,
    ...error.issues.map((issue) => `- ${issue.path.join(".") || "(input)"}: ${issue.message}`),
    `Expected input: ${JSON.stringify(schema)}`,
  ].join("\n");

const jsonSchemas = new WeakMap<z.ZodType, Readonly<Record<string, unknown>>>();

/** The JSON Schema of an input. It takes a while to make, and tools are made for every run: it is made once for each zod schema. */
const jsonSchemaOf = (input: z.ZodType): Readonly<Record<string, unknown>> => {
  const known = jsonSchemas.get(input);
  if (known !== undefined) return known;
  const { $schema: _, ...made } = z.toJSONSchema(input, { io: "input" });
  jsonSchemas.set(input, made);
  return made;
};

/** Makes a tool from a zod schema and a function; the schema validates, and its JSON Schema is what the model sees. */
export const defineTool = <Input>(spec: ToolSpec<Input>): Tool => {
  const inputSchema = jsonSchemaOf(spec.input);
  return {
    name: spec.name,
    description: spec.description,
    inputSchema,
    idempotent: spec.idempotent,
    parallel: spec.parallel ?? true,
    offload: spec.offload ?? true,
    ...(spec.timeoutMs === undefined ? {} : { timeoutMs: spec.timeoutMs }),
    call: async (input, context) => {
      const parsed = spec.input.safeParse(input);
      return parsed.success
        ? spec.run(parsed.data, context)
        : toolError(describeInvalidInput(spec.name, parsed.error, inputSchema));
    },
  };
};
