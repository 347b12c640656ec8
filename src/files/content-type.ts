/** What kind of content a file has: by name when it is written, by its first bytes when it is read. */

const BY_EXTENSION: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  csv: "text/csv; charset=utf-8",
  gif: "image/gif",
  html: "text/html; charset=utf-8",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  js: "text/javascript; charset=utf-8",
  json: "application/json",
  md: "text/markdown; charset=utf-8",
  pdf: "application/pdf",
  png: "image/png",
  svg: "image/svg+xml",
  webp: "image/webp",
  xml: "application/xml",
  zip: "application/zip",
};

/** The content type that a path's extension stands for; UTF-8 text for bytes that are text, else `application/octet-stream`. */
export const contentTypeOf = (path: string, bytes: Uint8Array): string => {
  const extension = /\.([A-Za-z0-9]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";
  return (
    BY_EXTENSION[extension] ?? (sniff(bytes).kind === "text" ? "text/plain; charset=utf-8" : "application/octet-stream")
  );
};

export type ContentKind =
  | { readonly kind: "image"; readonly mediaType: "image/png" | "image/jpeg" | "image/gif" | "image/webp" }
  | { readonly kind: "pdf" }
  | { readonly kind: "text" }
  | { readonly kind: "binary" };

/** Bytes that are looked at to tell text from binary. */
export const SNIFF_BYTES = 8_192;

const latin1 = new TextDecoder("latin1");

/** Tells the kind of a file from its beginning: the image types that the Messages API takes, PDF, text (UTF-8, no NUL), other. */
export const sniff = (beginning: Uint8Array): ContentKind => {
  const magic = latin1.decode(beginning.subarray(0, 16));
  if (magic.startsWith("\u2030PNG\r\n")) return { kind: "image", mediaType: "image/png" };
  if (magic.startsWith("\u00ff\u00d8\u00ff")) return { kind: "image", mediaType: "image/jpeg" };
  if (/^GIF8[79]a/.test(magic)) return { kind: "image", mediaType: "image/gif" };
  if (/^RIFF.{4}WEBP/s.test(magic)) return { kind: "image", mediaType: "image/webp" };
  if (magic.startsWith("%PDF-")) return { kind: "pdf" };
  const head = beginning.subarray(0, SNIFF_BYTES);
  if (head.includes(0)) return { kind: "binary" };
  // `stream` leaves a character that the cut went through out of the judgement.
  const text = new TextDecoder("utf-8").decode(head, { stream: true });
  const broken = text.split("\ufffd").length - 1;
  return { kind: broken * 10 > text.length ? "binary" : "text" };
};
