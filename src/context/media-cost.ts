/** What images and documents cost, from the first bytes of their base64 text (E2). */

/** Pixels per token of an image (the provider's documented rule: width x height / 750). */
const PIXELS_PER_TOKEN = 750;

/** The provider scales larger images down to about this cost. */
const MAX_IMAGE_TOKENS = 1_600;

/** A PDF page is sent as its text and as an image: 1,500 to 3,000 tokens of text a page by the provider's documentation, taken low, plus the image. */
export const PDF_PAGE_TOKENS = 3_000;

/** Base64 characters decoded to find a size: JPEG metadata before it can be long. A multiple of 4. */
const HEADER_CHARS = 87_384;

/** What an image costs whose size cannot be read: the most that one can cost. */
export const UNREADABLE_IMAGE_TOKENS = MAX_IMAGE_TOKENS;

interface Size {
  readonly width: number;
  readonly height: number;
}

const decode = (base64: string, chars: number): Uint8Array | undefined => {
  try {
    const binary = atob(base64.slice(0, chars - (chars % 4)));
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
  } catch {
    return undefined;
  }
};

/** A JPEG's size stands in its start-of-frame segment, behind any number of others. */
const jpegSize = (view: DataView): Size | undefined => {
  let at = 2;
  while (at + 9 < view.byteLength) {
    if (view.getUint8(at) !== 0xff) return undefined;
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return undefined;
};

const webpSize = (view: DataView): Size | undefined => {
  if (view.byteLength < 30) return undefined;
  switch (view.getUint32(12)) {
    case 0x56503820: // "VP8 "
      return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
    case 0x5650384c: {
      // "VP8L": 14 bits each, less one
      const bits = view.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 0x56503858: // "VP8X": 24 bits each, less one
      return { width: (view.getUint32(24, true) & 0xffffff) + 1, height: (view.getUint32(26, true) >>> 8) + 1 };
    default:
      return undefined;
  }
};

const sizeOf = (base64: string): Size | undefined => {
  const isJpeg = base64.startsWith("/9j/");
  const bytes = decode(base64, Math.min(base64.length, isJpeg ? HEADER_CHARS : 64));
  if (bytes === undefined || bytes.length < 10) return undefined;
  const view = new DataView(bytes.buffer);
  if (isJpeg) return jpegSize(view);
  if (view.byteLength >= 24 && view.getUint32(0) === 0x89504e47) {
    return { width: view.getUint32(16), height: view.getUint32(20) };
  }
  if (view.getUint32(0) === 0x47494638) return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  return view.getUint32(0) === 0x52494646 ? webpSize(view) : undefined;
};

/**
 * What an image costs: by its dimensions where PNG, JPEG, GIF or WebP shows them, else `UNREADABLE_IMAGE_TOKENS`.
 * @param base64 its data, or a reference to data that is elsewhere (V10)
 */
export const imageTokens = (base64: string): number => {
  const size = sizeOf(base64);
  if (size === undefined || size.width === 0 || size.height === 0) return UNREADABLE_IMAGE_TOKENS;
  return Math.min(MAX_IMAGE_TOKENS, Math.max(1, Math.ceil((size.width * size.height) / PIXELS_PER_TOKEN)));
};
