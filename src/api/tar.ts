/**
 * A tar stream: POSIX ustar, with pax records where a name or a size does not fit (IEEE 1003.1, "pax"). Written as it is read: an
 * archive of any size takes the memory of one part.
 */

export interface TarEntry {
  /** Relative path with "/" between its parts. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Ms since the epoch. */
  readonly modifiedMs: number;
  /** Exactly `sizeBytes` bytes. */
  readonly body: AsyncIterable<Uint8Array>;
}

const BLOCK_BYTES = 512;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;
/** Largest size that eleven octal digits say. */
const MAX_USTAR_SIZE_BYTES = 0o77777777777;

const encoder = new TextEncoder();

/** Field of a header: offset and length in bytes. */
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  mtime: [136, 12],
  checksum: [148, 8],
  type: [156, 1],
  magic: [257, 8],
  prefix: [345, 155],
} as const;

const octal = (value: number, length: number): string => value.toString(8).padStart(length - 1, "0");

interface Header {
  readonly name: string;
  readonly prefix: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  /** `0` a file, `x` the records of the entry that follows. */
  readonly type: "0" | "x";
}

const headerBlock = ({ name, prefix, sizeBytes, modifiedMs, type }: Header): Uint8Array => {
  const block = new Uint8Array(BLOCK_BYTES);
  const put = ([offset, length]: readonly [number, number], text: string) =>
    block.set(encoder.encode(text).subarray(0, length), offset);
  put(FIELDS.name, name);
  put(FIELDS.mode, octal(0o644, 8));
  put(FIELDS.uid, octal(0, 8));
  put(FIELDS.gid, octal(0, 8));
  put(FIELDS.size, octal(sizeBytes, 12));
  put(FIELDS.mtime, octal(Math.max(0, Math.floor(modifiedMs / 1000)), 12));
  put(FIELDS.checksum, " ".repeat(8));
  put(FIELDS.type, type);
  put(FIELDS.magic, "ustar\x0000");
  put(FIELDS.prefix, prefix);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(FIELDS.checksum, `${octal(sum, 7)}\0 `);
  return block;
};

const padding = (sizeBytes: number): Uint8Array =>
  new Uint8Array((BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES);

/** One pax record: its own length in bytes, then key and value. */
const paxRecord = (key: string, value: string): string => {
  const rest = encoder.encode(` ${key}=${value}\n`).byteLength;
  let length = rest + String(rest).length;
  // The length counts its own digits, and one more digit may make it one longer.
  if (rest + String(length).length > length) length++;
  return `${length} ${key}=${value}\n`;
};

const isAscii = (text: string): boolean => /^[\x20-\x7e]*$/.test(text);

/** A name as ustar's two fields hold it, or undefined when they cannot. */
const split = (name: string): { readonly name: string; readonly prefix: string } | undefined => {
  if (!isAscii(name)) return undefined;
  if (name.length <= NAME_BYTES) return { name, prefix: "" };
  const slash = name.indexOf("/", name.length - NAME_BYTES - 1);
  if (slash < 1 || slash > PREFIX_BYTES || slash === name.length - 1) return undefined;
  return { name: name.slice(slash + 1), prefix: name.slice(0, slash) };
};

/** The blocks before an entry's body. */
const header = ({ name, sizeBytes, modifiedMs }: TarEntry): readonly Uint8Array[] => {
  const fields = split(name);
  const fits = sizeBytes <= MAX_USTAR_SIZE_BYTES;
  const records = [
    ...(fields === undefined ? [paxRecord("path", name)] : []),
    ...(fits ? [] : [paxRecord("size", String(sizeBytes))]),
  ].join("");
  // Readers without pax see this name; the others replace it.
  const { name: short, prefix } = fields ?? { name: name.replace(/[^\x20-\x7e]/g, "_").slice(-NAME_BYTES), prefix: "" };
  const own = headerBlock({ name: short, prefix, sizeBytes: fits ? sizeBytes : 0, modifiedMs, type: "0" });
  if (records === "") return [own];
  const body = encoder.encode(records);
  const pax: Header = { name: "PaxHeaders/entry", prefix: "", sizeBytes: body.byteLength, modifiedMs, type: "x" };
  return [headerBlock(pax), body, padding(body.byteLength), own];
};

const parts = async function* (entries: AsyncIterable<TarEntry>): AsyncGenerator<Uint8Array> {
  for await (const entry of entries) {
    yield* header(entry);
    let writtenBytes = 0;
    for await (const part of entry.body) {
      writtenBytes += part.byteLength;
      if (writtenBytes > entry.sizeBytes) break;
      yield part;
    }
    if (writtenBytes !== entry.sizeBytes) throw new Error("the size of a tar entry differs from its header");
    yield padding(entry.sizeBytes);
  }
  yield new Uint8Array(2 * BLOCK_BYTES);
};

/**
 * The archive, made as fast as it is read. A failure on the way errors the stream: an archive that ends cleanly is whole.
 * @param onError told of the failure, once, before the reader is
 */
export const tarStream = (
  entries: AsyncIterable<TarEntry>,
  onError: (error: unknown) => void,
): ReadableStream<Uint8Array> => {
  const source = parts(entries);
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        for (;;) {
          const next = await source.next();
          if (next.done === true) return controller.close();
          if (next.value.byteLength === 0) continue;
          return controller.enqueue(next.value);
        }
      } catch (error) {
        onError(error);
        controller.error(new Error("the archive could not be finished"));
      }
    },
    cancel: async () => {
      await source.return(undefined);
    },
  });
};
