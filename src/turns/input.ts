/** A caller's input as a row of the log. */
import { z } from "zod";
import type { FileSystem } from "../files/filesystem.ts";
import { parsePath } from "../files/path.ts";
import type { MessageId, RunId } from "../protocol/ids.ts";
import { externaliseMedia, MEDIA_INLINE_LIMIT, type PutMedia } from "../protocol/media-text.ts";
import type { NewRow } from "../protocol/messages.ts";
import { newRow } from "./rows.ts";

const notBlank = (text: string): boolean => text.trim() !== "";
const text = z.string().refine(notBlank, "expected text that is not blank");
const base64 = z.string().regex(/^[A-Za-z0-9+/]+={0,2}$/, "expected base64 without line breaks");
const imageType = z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const urlSource = z.strictObject({ type: z.literal("url"), url: z.url({ protocol: /^https$/ }) });

/** The blocks of a turn's input (api.md): those of the Messages API that a user may send, and files of the session by path. */
export const inputBlock = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text }),
  z.strictObject({
    type: z.literal("image"),
    source: z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("base64"), media_type: imageType, data: base64 }),
      urlSource,
    ]),
  }),
  z.strictObject({
    type: z.literal("document"),
    source: z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("base64"), media_type: z.literal("application/pdf"), data: base64 }),
      z.strictObject({ type: z.literal("text"), media_type: z.literal("text/plain"), data: text }),
      urlSource,
    ]),
    title: z.string().max(500).optional(),
  }),
  z.strictObject({ type: z.literal("file"), path: z.string().min(1).max(1_000) }),
]);

/** Most blocks of one input. */
export const MAX_INPUT_BLOCKS = 200;

export const turnInput = z.union([text, z.array(inputBlock).min(1).max(MAX_INPUT_BLOCKS)]);

export type TurnInput = z.infer<typeof turnInput>;
type InputBlock = z.infer<typeof inputBlock>;

/** A block of the input names a file that cannot be used. The message is for the caller. */
export class InputFileError extends Error {
  override readonly name = "InputFileError";
  readonly index: number;
  constructor(index: number, message: string) {
    super(message);
    this.index = index;
  }
}

/** Whether the input can only be made into a row with the session's storage at hand. */
export const needsStorage = (input: TurnInput): boolean =>
  typeof input !== "string" &&
  input.some(
    (block) =>
      block.type === "file" ||
      ("source" in block && block.source.type === "base64" && block.source.data.length > MEDIA_INLINE_LIMIT),
  );

/** Largest file taken into a message, in bytes: the provider's limit for an image. */
const MAX_FILE_BYTES = 5_000_000;

/** Bytes of a piece that `btoa` is given at a time; a multiple of 3, so that the pieces join without padding. */
const BASE64_PIECE = 24_576;

const toBase64 = (bytes: Uint8Array): string => {
  let encoded = "";
  for (let at = 0; at < bytes.length; at += BASE64_PIECE)
    encoded += btoa(String.fromCharCode(...bytes.subarray(at, at + BASE64_PIECE)));
  return encoded;
};

const fileBlock = async (
  files: FileSystem,
  path: string,
  index: number,
): Promise<Exclude<InputBlock, { type: "file" }>> => {
  const parsed = parsePath(path);
  if (!parsed.ok) throw new InputFileError(index, parsed.reason);
  const file = await files.stat(parsed.path);
  if (file === undefined) throw new InputFileError(index, `there is no file ${path} in this session`);
  if (file.sizeBytes > MAX_FILE_BYTES) {
    throw new InputFileError(
      index,
      `${path} has ${file.sizeBytes} bytes; at most ${MAX_FILE_BYTES} can be part of a message`,
    );
  }
  const read = await files.read(parsed.path);
  if (read === undefined) throw new InputFileError(index, `there is no file ${path} in this session`);
  const image = imageType.safeParse(read.contentType);
  if (image.success)
    return { type: "image", source: { type: "base64", media_type: image.data, data: toBase64(read.bytes) } };
  if (read.contentType === "application/pdf") {
    return { type: "document", source: { type: "base64", media_type: "application/pdf", data: toBase64(read.bytes) } };
  }
  let data: string;
  try {
    data = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(read.bytes);
  } catch {
    throw new InputFileError(index, `${path} is neither text, an image nor a PDF`);
  }
  if (!notBlank(data)) throw new InputFileError(index, `${path} is empty`);
  return { type: "document", source: { type: "text", media_type: "text/plain", data }, title: path };
};

/** The session's storage, for an input that needs it. */
export interface InputStorage {
  readonly files: FileSystem;
  readonly putMedia: PutMedia;
}

/**
 * The input as a row. Text is well-formed already: the door repaired it.
 * @param storage needed when `needsStorage` says so
 * @throws InputFileError for a file that is not there or cannot be sent
 */
export const inputRow = async (
  input: TurnInput,
  id: MessageId,
  runId: RunId,
  storage: InputStorage | null,
): Promise<NewRow> => {
  const blocks: readonly InputBlock[] = typeof input === "string" ? [{ type: "text", text: input }] : input;
  const resolved: unknown[] = [];
  for (const [index, block] of blocks.entries()) {
    if (block.type === "file" && storage === null) throw new Error("a file block needs the session's storage");
    resolved.push(
      block.type === "file" && storage !== null ? await fileBlock(storage.files, block.path, index) : block,
    );
  }
  const whole = JSON.stringify(resolved);
  if (storage === null) return newRow({ id, origin: "user", content: whole, runId });
  const { content, media } = await externaliseMedia(whole, storage.putMedia);
  return newRow({ id, origin: "user", content, media, sentContent: whole, runId });
};
