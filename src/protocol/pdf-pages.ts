/** How many pages a PDF has, from its base64 text: what it costs (E2) and how many media items it is (E6). */

/** Base64 characters per page of a PDF whose pages cannot be counted: about 100 KB of file. */
const BASE64_PER_PDF_PAGE = 133_000;

/** Longer than any reference. */
const MAX_REFERENCE_CHARS = 200;

/** The page objects of a PDF, where they stand uncompressed. */
const PAGE_OBJECT = /\/Type\s*\/Page(?![a-zA-Z])/g;

/** Most base64 characters that are searched for pages. */
const PDF_SEARCH_CHARS = 1_000_000;

/** What a reference says of the PDF that it stands for. */
const PAGES_OF_REFERENCE = /^hango:media\/sha256-[0-9a-f]+;pages=(\d{1,9})$/;

/** Whether a payload is a PDF: `%PDF-` in base64. */
export const isPdf = (base64: string): boolean => base64.startsWith("JVBER");

/**
 * The pages of a PDF: counted where its page objects can be seen, else by its size; at least 1.
 * @param base64 its data, or a reference to data that is elsewhere (V10), which tells the pages
 */
export const pdfPages = (base64: string): number => {
  const told = base64.length < MAX_REFERENCE_CHARS ? PAGES_OF_REFERENCE.exec(base64)?.[1] : undefined;
  if (told !== undefined) return Math.max(1, Number(told));
  const bySize = Math.max(1, Math.ceil(base64.length / BASE64_PER_PDF_PAGE));
  if (!isPdf(base64) || base64.length > PDF_SEARCH_CHARS) return bySize;
  try {
    return Math.max(bySize, atob(base64).match(PAGE_OBJECT)?.length ?? 1);
  } catch {
    return bySize;
  }
};
