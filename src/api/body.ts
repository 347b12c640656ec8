/** Reads the body of a request once, within limits, before anything looks at it. */
import type { MiddlewareHandler } from "hono";
import { jsonDepth, repairSurrogates } from "../protocol/json-text.ts";
import type { AppEnv } from "./env.ts";
import { ApiError } from "./errors.ts";

/** Largest body (api.md, "Limits"). */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** Largest file that is uploaded (api.md, "Limits"). */
export const MAX_FILE_BYTES = 25 * 1024 * 1024;
/** Deepest nesting of a JSON body; the deepest real one, a tool's schema, has about 20 levels. */
const MAX_JSON_DEPTH = 64;

const tooLarge = (limitBytes: number): ApiError =>
  new ApiError("payload_too_large", `The body is larger than ${limitBytes / 1024 / 1024} MB.`);

/** The bytes of a body; stops reading at the limit, whatever `Content-Length` says. @returns null for a larger body */
export const readAtMost = async (request: Request, limitBytes: number): Promise<Uint8Array<ArrayBuffer> | null> => {
  if (Number(request.headers.get("Content-Length") ?? 0) > limitBytes) return null;
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  if (request.body !== null) {
    const reader: ReadableStreamDefaultReader<Uint8Array> = request.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      sizeBytes += part.value.byteLength;
      if (sizeBytes > limitBytes) {
        await reader.cancel().catch(() => undefined);
        return null;
      }
      chunks.push(part.value);
    }
  }
  const bytes = new Uint8Array(sizeBytes);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
};

const readLimited = async (request: Request, limitBytes: number): Promise<Uint8Array<ArrayBuffer>> => {
  const bytes = await readAtMost(request, limitBytes);
  if (bytes === null) throw tooLarge(limitBytes);
  return bytes;
};

const isJson = (contentType: string): boolean => /^application\/([a-z.-]+\+)?json\b/i.test(contentType);

const badJson = (message: string): ApiError => new ApiError("invalid_request", `body: ${message}`, { param: "body" });

/** The text of a JSON body, made well-formed (lone surrogates repaired), parsed once to say what is wrong with it. */
const jsonText = (bytes: Uint8Array): { readonly given: string; readonly repaired: string } => {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw badJson("is not valid UTF-8");
  }
  if (text.trim() === "") throw badJson("is empty; expected a JSON object");
  if (jsonDepth(text) > MAX_JSON_DEPTH) throw badJson(`is nested deeper than ${MAX_JSON_DEPTH} levels`);
  const repaired = repairSurrogates(text);
  try {
    JSON.parse(repaired);
  } catch (error) {
    const where =
      error instanceof SyntaxError ? /at position \d+( \(line \d+ column \d+\))?/.exec(error.message)?.[0] : undefined;
    throw badJson(`is not valid JSON${where === undefined ? "" : ` (${where})`}`);
  }
  return { given: text, repaired };
};

const isUpload = (request: Request): boolean =>
  request.method === "PUT" && /^\/v1\/sessions\/[^/]+\/files\//.test(new URL(request.url).pathname);

/**
 * Reads the body so that handlers find it with `c.req.text()`, `c.req.json()` or `c.req.arrayBuffer()`. JSON is checked here.
 * @param takesOne whether the operation takes a body: if not, an empty one is none, since many clients send a content type with every POST
 * @throws ApiError `payload_too_large`, `invalid_request`
 */
export const body = (takesOne: boolean): MiddlewareHandler<AppEnv> =>
  async function body(c, next) {
    const request = c.req.raw;
    if (request.body !== null) {
      const bytes = await readLimited(request, isUpload(request) ? MAX_FILE_BYTES : MAX_BODY_BYTES);
      const none = !takesOne && bytes.byteLength === 0;
      const json = !none && isJson(request.headers.get("Content-Type") ?? "") && !isUpload(request);
      const text = json ? jsonText(bytes) : undefined;
      if (text !== undefined && text.given !== text.repaired) c.set("unrepairedBody", text.given);
      // A request made of the old one keeps its headers and its signal; Hono reads and caches the body from there.
      c.req.raw = new Request(request, { body: text?.repaired ?? bytes });
    }
    await next();
  };
