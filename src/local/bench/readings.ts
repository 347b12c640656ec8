/** Recorded sessions and requests with the prompt sizes that their provider counted: what estimates are measured against. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelRequest, SystemBlock, ToolDefinition, ViewMessage } from "../../protocol/messages.ts";

const SAMPLE = join(import.meta.dirname, "../../../test/fixtures/tokens");
const COLLECTION = join(import.meta.dirname, "../../../../shared/data");

/** The collection beside the checkout where it exists, else the sample in the fixtures. Both have `sessions/`, `usage/` and `tokens/`. */
export const readingsFolder = (): string => (existsSync(join(COLLECTION, "usage")) ? COLLECTION : SAMPLE);
export const sampleReadingsFolder = SAMPLE;

interface RecordedMessage {
  readonly role: "user" | "assistant";
  readonly content: string | readonly unknown[];
}

/** What was added between two calls of a session. */
export interface Step {
  readonly session: string;
  readonly model: string;
  /** Prompt sizes of the two calls, as the provider counted. */
  readonly before: number;
  readonly after: number;
  /** What is new in the second call, as content texts. */
  readonly added: readonly string[];
  /** Whether something of it has a cost that no text shows. */
  readonly media: boolean;
}

interface Call {
  readonly msg: number;
  readonly prompt_tokens: number;
  readonly model: string;
}

const lines = <T>(path: string): readonly T[] =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .slice(1)
    .map((line): T => JSON.parse(line));

const contentText = ({ content }: RecordedMessage): string =>
  JSON.stringify(typeof content === "string" ? [{ type: "text", text: content }] : content);

const MEDIA = /"type":"(?:image|document)"/;

/** The steps of every session with readings, in order. Those in which the model or its prompt changed otherwise are among them. */
export const readSteps = (folder: string): readonly Step[] =>
  readdirSync(join(folder, "usage"))
    .sort()
    .flatMap((file) => {
      const calls = lines<Call>(join(folder, "usage", file));
      const messages = lines<RecordedMessage>(join(folder, "sessions", file)).map(contentText);
      return calls.flatMap((call, index) => {
        const last = calls[index - 1];
        if (last === undefined) return [];
        const added = messages.slice(last.msg, call.msg);
        return {
          session: file.replace(".jsonl", ""),
          model: call.model,
          before: last.prompt_tokens,
          after: call.prompt_tokens,
          added,
          media: added.some((text) => MEDIA.test(text)),
        };
      });
    });

/** A whole request and its exact size. */
export interface CountedRequest {
  readonly request: ModelRequest;
  readonly tokens: number;
  /** The body as it was sent. */
  readonly body: string;
}

interface RecordedTool {
  readonly name: string;
  readonly type?: string;
  readonly description?: string;
  readonly input_schema?: Readonly<Record<string, unknown>>;
}

interface RecordedRequest {
  readonly prompt_tokens: number;
  readonly server_tools: boolean;
  readonly model: string;
  readonly request: {
    readonly messages: readonly RecordedMessage[];
    readonly system?: string | readonly SystemBlock[];
    readonly tools?: readonly RecordedTool[];
  };
}

const toolOf = (tool: RecordedTool): ToolDefinition => {
  if (tool.input_schema === undefined) return { kind: "provider", name: tool.name, definition: { ...tool } };
  return { kind: "function", name: tool.name, description: tool.description ?? "", inputSchema: tool.input_schema };
};

/** The counted requests without media and without tools that the provider runs or defines: what is billed for those is in no request. */
export const readRequests = (folder: string): readonly CountedRequest[] =>
  lines<RecordedRequest>(join(folder, "tokens", "anthropic-requests.jsonl")).flatMap((recorded) => {
    const { request } = recorded;
    const body = JSON.stringify(request);
    const tools = (request.tools ?? []).map(toolOf);
    if (recorded.server_tools || MEDIA.test(body) || tools.some(({ kind }) => kind === "provider")) return [];
    const system = typeof request.system === "string" ? [{ text: request.system }] : (request.system ?? []);
    const messages = request.messages.map(
      (message): ViewMessage => ({
        role: message.role === "assistant" ? "assistant" : "user",
        content: contentText(message),
        media: [],
      }),
    );
    return {
      request: { model: recorded.model, maxTokens: 1, system, tools, messages },
      tokens: recorded.prompt_tokens,
      body,
    };
  });

/** Short natural texts in many scripts, by language. */
export const readScripts = (): Readonly<Record<string, string>> =>
  JSON.parse(readFileSync(join(SAMPLE, "scripts.json"), "utf8"));

/** All recorded text of one file. */
export const readSession = (folder: string, session: string): string =>
  readFileSync(join(folder, "sessions", `${session}.jsonl`), "utf8");
