/**
 * File paths: absolute, POSIX, inside the session's own root. A path is data from a model or a caller, so whatever could mean
 * another place to any later reader is refused rather than resolved.
 */

declare const brand: unique symbol;

/** A checked path: starts with "/", no empty, "." or ".." segment, NFC. */
export type FilePath = string & { readonly [brand]: "FilePath" };

/** A checked directory: "/" or a path that ends in "/". Directories exist only as beginnings of file paths. */
export type DirectoryPath = string & { readonly [brand]: "DirectoryPath" };

export type ParsedPath =
  | { readonly ok: true; readonly path: FilePath }
  | { readonly ok: false; readonly reason: string };
export type ParsedDirectory =
  | { readonly ok: true; readonly path: DirectoryPath }
  | { readonly ok: false; readonly reason: string };

/** R2 keys have at most 1,024 bytes (platform.md); tenant, session and section key need about 200 of them. */
export const MAX_PATH_BYTES = 800;
/** What common file systems allow, so that an exported session can be unpacked. */
export const MAX_SEGMENT_BYTES = 255;

/** Where hango keeps the offloaded history and results: callers and models may read there, not write. */
export const HISTORY_DIRECTORY = "/conversation_history/" as DirectoryPath;
export const RESULTS_DIRECTORY = "/large_tool_results/" as DirectoryPath;

/** Characters that look like "/" or "\": fraction, division, set minus, big solidus, small and full-width forms, box diagonals. */
const LOOKALIKE_SLASH = /[\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68\uff0f\uff3c\u2571\u2572]/u;
/** Characters that look like one or more dots. */
const LOOKALIKE_DOT =
  /[\u2024\u2025\u2026\ufe52\uff0e\ufe19\ufe30\u3002\uff61\u00b7\u2219\u22c5\u22ef\u0701\u0702\ua4f8]/gu;
/** Characters that are not seen: control characters aside, a segment of dots and these is still a segment of dots. */
const INVISIBLE = /[\p{Cf}\p{Z}\p{Mn}\p{Me}]/gu;
/** Overlong UTF-8 forms of ASCII and the %u form, which old decoders turn into dots and slashes. */
const ODD_ESCAPE = /%(?:25)*(?:c[01]|e0%(?:25)*80|f0%(?:25)*80|u[0-9a-f]{4})/i;
/** More nesting than this is no accident. */
const MAX_DECODINGS = 5;

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
const dangerous = (text: string): number => text.match(/[./\\]|\p{Cc}/gu)?.length ?? 0;

/** Whether percent-decoding, repeated as a chain of careless readers would, brings out a dot, a separator or a control character. */
const hidesEscape = (text: string): boolean => {
  let decoded = text;
  for (let round = 0; round < MAX_DECODINGS; round++) {
    const next = decoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
    if (next === decoded) return false;
    if (dangerous(next) > dangerous(decoded)) return true;
    decoded = next;
  }
  return true;
};

const refuseSegment = (segment: string): string | undefined => {
  if (segment === "..") return '".." is not allowed; give the path from the root "/"';
  const seen = segment.replace(INVISIBLE, "").replace(LOOKALIKE_DOT, ".");
  if (seen === "") return "a name of blank characters only is not allowed";
  if (/^\.+$/.test(seen)) return `${JSON.stringify(segment)} is not allowed as a name: it reads like "." or ".."`;
  const sizeBytes = bytesOf(segment);
  return sizeBytes > MAX_SEGMENT_BYTES
    ? `the name "${segment.slice(0, 40)}..." has ${sizeBytes} bytes; at most ${MAX_SEGMENT_BYTES} are allowed`
    : undefined;
};

const refuseText = (text: string): string | undefined => {
  // Length first: the checks below are linear, but need not run over megabytes.
  if (text.length > 4 * MAX_PATH_BYTES) return `the path is longer than ${MAX_PATH_BYTES} bytes`;
  if (!text.isWellFormed()) return "the path is not well-formed Unicode (a lone surrogate)";
  if (/[\p{Cc}\u2028\u2029]/u.test(text))
    return "control characters (NUL, line breaks, tabs) are not allowed in a path";
  if (text.includes("\\")) return 'the backslash is not allowed; separate names with "/"';
  if (LOOKALIKE_SLASH.test(text)) return 'characters that look like a slash are not allowed; separate names with "/"';
  if (ODD_ESCAPE.test(text) || hidesEscape(text))
    return "percent-encoded dots, separators or control characters are not allowed; give the plain path";
  return undefined;
};

/** The segments of a path, or why it is refused. */
const segmentsOf = (text: string): readonly string[] | string => {
  const normal = refuseText(text) ?? refuseText(text.normalize("NFC"));
  if (normal !== undefined) return normal;
  const segments = text
    .normalize("NFC")
    .split("/")
    .filter((segment) => segment !== "" && segment !== ".");
  for (const segment of segments) {
    const reason = refuseSegment(segment);
    if (reason !== undefined) return reason;
  }
  const sizeBytes = bytesOf(`/${segments.join("/")}`);
  return sizeBytes > MAX_PATH_BYTES
    ? `the path has ${sizeBytes} bytes; at most ${MAX_PATH_BYTES} are allowed`
    : segments;
};

/**
 * Checks and normalises the path of a file. Relative paths are taken from "/"; "//" and "/./" collapse; ".." is refused, never
 * resolved; limits are `MAX_PATH_BYTES` and `MAX_SEGMENT_BYTES` of UTF-8.
 * @returns the path, or a reason written for whoever gave it
 */
export const parsePath = (text: string): ParsedPath => {
  if (text === "") return { ok: false, reason: 'the path is empty; give one like "/notes.md"' };
  const segments = segmentsOf(text);
  if (typeof segments === "string") return { ok: false, reason: segments };
  if (segments.length === 0 || /\/\.?$/.test(text))
    return { ok: false, reason: "the path names a directory; give the path of a file" };
  return { ok: true, path: `/${segments.join("/")}` as FilePath };
};

/** Checks and normalises the path of a directory, with or without its trailing "/". Empty text is the root. */
export const parseDirectory = (text: string): ParsedDirectory => {
  const segments = segmentsOf(text);
  if (typeof segments === "string") return { ok: false, reason: segments };
  return { ok: true, path: (segments.length === 0 ? "/" : `/${segments.join("/")}/`) as DirectoryPath };
};

/** The directory whose name is this path: what its files' paths begin with. */
export const asDirectory = (path: FilePath): DirectoryPath => `${path}/` as unknown as DirectoryPath;

/** Whether a path belongs to hango: offloaded history and results, which only hango writes. */
export const isReadOnly = (path: FilePath): boolean =>
  [HISTORY_DIRECTORY, RESULTS_DIRECTORY].some((directory) => `${path}/`.startsWith(directory));

/** Orders paths by code point, as R2 orders keys; `<` on strings orders by UTF-16 unit, which differs beyond U+FFFF. */
export const comparePaths = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const left = a.charCodeAt(at);
    const right = b.charCodeAt(at);
    if (left === right) continue;
    // A surrogate stands for a code point above every other unit.
    const leftAstral = left >= 0xd800 && left <= 0xdfff;
    const rightAstral = right >= 0xd800 && right <= 0xdfff;
    if (leftAstral !== rightAstral) return leftAstral ? 1 : -1;
    return left - right;
  }
  return a.length - b.length;
};
