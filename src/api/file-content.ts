/** A file as an HTTP answer: always a download, never a page, so that an uploaded one cannot run in a browser. */
import type { FilePath, FileStat, FileSystem } from "../turns/session-files.ts";
import { ApiError } from "./errors.ts";
import { entityTagsOf, rangeOf, tagsInclude } from "./http-conditions.ts";

/** A larger file is sent in pieces of this size, so that it is never in memory as a whole. */
const PIECE_BYTES = 4 * 1024 * 1024;

/** A stored content type that a header can carry; anything else is only bytes. */
const safeType = (contentType: string): string =>
  /^[\w.+-]+\/[\w.+-]+(\s*;\s*[\w-]+=("[\x20-\x7e]*"|[\w.+-]*))*$/.test(contentType)
    ? contentType
    : "application/octet-stream";

const disposition = (path: FilePath): string => {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const encoded = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename*=UTF-8''${encoded}`;
};

const headersOf = (path: FilePath, file: FileStat): Record<string, string> => ({
  "Accept-Ranges": "bytes",
  "Cache-Control": "private, no-cache",
  "Content-Disposition": disposition(path),
  "Content-Type": safeType(file.contentType),
  ETag: `"${file.etag}"`,
  "Last-Modified": new Date(file.modifiedMs).toUTCString(),
});

const pieces = (
  files: FileSystem,
  path: FilePath,
  file: FileStat,
  from: number,
  to: number,
): ReadableStream<Uint8Array> => {
  let at = from;
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const lengthBytes = Math.min(PIECE_BYTES, to - at);
      const piece = await files.read(path, { range: { offsetBytes: at, lengthBytes } });
      // Half of one version and half of another is worse than a broken download.
      if (piece === undefined || piece.etag !== file.etag || piece.bytes.byteLength === 0) {
        controller.error(new Error("the file changed while it was being read"));
        return;
      }
      controller.enqueue(piece.bytes);
      at += piece.bytes.byteLength;
      if (at >= to) controller.close();
    },
  });
};

const preconditions = (request: Request, file: FileStat): "send" | "not_modified" => {
  const ifMatch = entityTagsOf(request.headers, "If-Match");
  if (ifMatch !== null && !tagsInclude(ifMatch, file.etag)) {
    throw new ApiError("precondition_failed", "The file is another version than If-Match names.", {
      param: "If-Match",
    });
  }
  const ifNoneMatch = entityTagsOf(request.headers, "If-None-Match");
  return ifNoneMatch !== null && tagsInclude(ifNoneMatch, file.etag) ? "not_modified" : "send";
};

/**
 * Answers GET and HEAD for a file.
 * @returns 200, 206 or 304
 * @throws ApiError `precondition_failed`, `range_not_satisfiable`
 */
export const answerFile = async (
  files: FileSystem,
  path: FilePath,
  file: FileStat,
  request: Request,
): Promise<Response> => {
  const headers = headersOf(path, file);
  if (preconditions(request, file) === "not_modified") return new Response(null, { status: 304, headers });
  const range = rangeOf(request.headers, file);
  const total = file.sizeBytes;
  if (range.kind === "unsatisfiable") {
    throw new ApiError("range_not_satisfiable", `The file has ${total} bytes.`, {
      param: "Range",
      headers: { "Content-Range": `bytes */${total}` },
    });
  }
  const part = range.kind === "part" ? range : { offsetBytes: 0, lengthBytes: total };
  const end = part.offsetBytes + part.lengthBytes;
  if (range.kind === "part") headers["Content-Range"] = `bytes ${part.offsetBytes}-${end - 1}/${total}`;
  headers["Content-Length"] = String(part.lengthBytes);
  const status = range.kind === "part" ? 206 : 200;
  if (request.method === "HEAD" || part.lengthBytes === 0) return new Response(null, { status, headers });
  if (part.lengthBytes > PIECE_BYTES)
    return new Response(pieces(files, path, file, part.offsetBytes, end), { status, headers });
  const read = await files.read(path, { range: part });
  // Changed or removed since it was looked at: the caller's next attempt sees the new version.
  if (read === undefined || read.etag !== file.etag) {
    throw new ApiError("unavailable", "The file changed while it was being read.", { retryAfterSeconds: 1 });
  }
  return new Response(read.bytes, { status, headers });
};
