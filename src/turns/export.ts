/**
 * A session as files: `session.json`, `messages.jsonl`, `compactions.jsonl`, `files/...`. One row, one part of a file at a time is in memory; sizes are
 * known beforehand, as an archive wants them.
 */
import type { FileSystem } from "../files/filesystem.ts";
import { r2MediaStore } from "../files/media.ts";
import type { FilePath } from "../files/path.ts";
import { r2FileSystem } from "../files/r2.ts";
import type { SessionId, TenantId } from "../protocol/ids.ts";
import { inlineMedia } from "../protocol/media-text.ts";
import type { Db } from "../store/db.ts";
import { type ExportedRow, type ExportPlan, exportRows, planExport } from "../store/export.ts";
import {
  type CompactionContent,
  exportCompactions,
  type PlannedCompaction,
  planCompactions,
} from "../store/export-compactions.ts";
import type { CompactionRecord } from "../store/receipts.ts";
import type { Deps } from "./deps.ts";
import { sessionRoot } from "./objects.ts";

export interface ExportEntry {
  readonly name: string;
  readonly sizeBytes: number;
  /** Ms since the epoch. */
  readonly modifiedMs: number;
  /** `sizeBytes` bytes; rejects when that cannot be kept. */
  readonly body: AsyncIterable<Uint8Array>;
}

export interface ExportedSession {
  readonly tenantId: TenantId;
  readonly sessionId: SessionId;
  /** The session that keeps the files and the media. Another one's are not exported with this. */
  readonly rootSessionId: SessionId;
  /** The text of `session.json`. */
  readonly json: string;
  /** A receipt as the API shows it. */
  readonly showCompaction: (record: CompactionRecord) => object;
}

/** What was measured when the export began is not what was read: an erasure or an overwrite came between. */
export class ExportChanged extends Error {
  override readonly name = "ExportChanged";
}

/** Most bytes of a file that are read at once. */
const PART_BYTES = 4 * 1024 * 1024;
/** Lines are handed on in pieces of about this size. */
const PIECE_CHARS = 64 * 1024;
const LIST_LIMIT = 1_000;

const encoder = new TextEncoder();

const line = (
  label: readonly [seq: number | "", id: string, role: string, origin: string],
  createdAt: string,
  content: string,
) =>
  `{"seq":${label[0]},"id":"${label[1]}","role":"${label[2]}","origin":"${label[3]}","created_at":"${createdAt}","content":${content}}\n`;

/** Everything in a line but its label and its content; times have one length. */
const FRAME_BYTES = line(["", "", "", ""], new Date(0).toISOString(), "").length;

/**
 * One row as a line. Line breaks between the tokens of a content become spaces, since a line can hold none; every other byte is as
 * stored (V9). Inside strings JSON has no raw line breaks.
 */
export const messageLine = (row: ExportedRow, content: string): string =>
  line([row.seq, row.id, row.role, row.origin], row.createdAt, content.replace(/[\r\n]/g, " "));

const measured = async function* (sizeBytes: number, parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let sentBytes = 0;
  for await (const part of parts) {
    sentBytes += part.byteLength;
    if (sentBytes > sizeBytes) break;
    yield part;
  }
  if (sentBytes !== sizeBytes) throw new ExportChanged(`expected ${sizeBytes} bytes, read ${sentBytes}`);
};

const messageParts = async function* (
  rows: AsyncIterable<ExportedRow>,
  loadMedia: (hash: string) => Promise<string>,
): AsyncGenerator<Uint8Array> {
  let pending = "";
  for await (const row of rows) {
    pending += messageLine(row, await inlineMedia(row.content, row.media, loadMedia));
    if (pending.length < PIECE_CHARS) continue;
    yield encoder.encode(pending);
    pending = "";
  }
  if (pending !== "") yield encoder.encode(pending);
};

/** One generation as a line: its receipt, and what the view shows of it. */
const compactionLine = (
  receipt: string,
  { summary, pinnedText, sections }: Pick<CompactionContent, "summary" | "pinnedText" | "sections">,
): string => `${receipt.slice(0, -1)},"summary":${summary},"pinned_text":${pinnedText},"sections":${sections}}\n`;

const compactionsEntry = (
  db: Db,
  { sessionId, showCompaction }: Pick<ExportedSession, "sessionId" | "showCompaction">,
  planned: readonly PlannedCompaction[],
  modifiedMs: number,
): ExportEntry => {
  const receipts = new Map(planned.map(({ record }) => [record.generation, JSON.stringify(showCompaction(record))]));
  const nothing = { summary: "", pinnedText: "", sections: "" };
  const sizeBytes = planned.reduce(
    (sum, { record, contentBytes }) =>
      sum + contentBytes + encoder.encode(compactionLine(receipts.get(record.generation) ?? "", nothing)).byteLength,
    0,
  );
  const parts = async function* () {
    for await (const content of exportCompactions(db, sessionId, [...receipts.keys()]))
      yield encoder.encode(compactionLine(receipts.get(content.generation) ?? "", content));
  };
  return { name: "compactions.jsonl", sizeBytes, modifiedMs, body: measured(sizeBytes, parts()) };
};

/** A file as it is when its turn comes; one that was removed since it was listed is left out. */
const fileEntry = async (files: FileSystem, path: FilePath, modifiedMs: number): Promise<ExportEntry | undefined> => {
  const first = await files.read(path, { range: { offsetBytes: 0, lengthBytes: PART_BYTES } });
  if (first === undefined) return undefined;
  const { sizeBytes, etag } = first;
  const parts = async function* () {
    yield first.bytes;
    for (let offsetBytes = first.bytes.byteLength; offsetBytes < sizeBytes; ) {
      const part = await files.read(path, { range: { offsetBytes, lengthBytes: PART_BYTES } });
      if (part === undefined || part.etag !== etag || part.bytes.byteLength === 0) {
        throw new ExportChanged("a file changed while it was read");
      }
      yield part.bytes;
      offsetBytes += part.bytes.byteLength;
    }
  };
  return { name: `files${path}`, sizeBytes, modifiedMs, body: measured(sizeBytes, parts()) };
};

const fileEntries = async function* (files: FileSystem): AsyncGenerator<ExportEntry> {
  let cursor: string | undefined;
  do {
    const page = await files.list({ prefix: "/", limit: LIST_LIMIT, ...(cursor === undefined ? {} : { cursor }) });
    for (const { path, modifiedMs } of page.files) {
      const entry = await fileEntry(files, path, modifiedMs);
      if (entry !== undefined) yield entry;
    }
    cursor = page.cursor;
  } while (cursor !== undefined);
};

const one = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
};

const entries = async function* (
  deps: Deps,
  exported: ExportedSession,
  plan: ExportPlan,
  planned: readonly PlannedCompaction[],
): AsyncGenerator<ExportEntry> {
  const { tenantId, sessionId, rootSessionId, json } = exported;
  const root = sessionRoot(tenantId, rootSessionId);
  const media = r2MediaStore(deps.bucket, root, deps.sleep);
  const modifiedMs = deps.now();
  const session = encoder.encode(json);
  yield { name: "session.json", sizeBytes: session.byteLength, modifiedMs, body: one(session) };
  const sizeBytes = plan.rows * FRAME_BYTES + plan.labelBytes + plan.contentBytes;
  const body = measured(sizeBytes, messageParts(exportRows(deps.db, plan), media.get));
  yield { name: "messages.jsonl", sizeBytes, modifiedMs, body };
  yield compactionsEntry(deps.db, exported, planned, modifiedMs);
  if (rootSessionId === sessionId) yield* fileEntries(r2FileSystem(deps.bucket, root, deps.sleep));
};

/**
 * Begins an export: everything of the session at this moment, rows that a rewind took out of sight included.
 * @param session found by its tenant
 * @returns undefined when it is gone
 * @throws StoreUnavailable; while entries are read also ExportChanged, MediaMissing and what R2 throws
 */
export const exportSession = async (
  deps: Deps,
  session: ExportedSession,
): Promise<AsyncIterable<ExportEntry> | undefined> => {
  const plan = await planExport(deps.db, session.sessionId);
  if (plan === undefined) return undefined;
  return entries(deps, session, plan, await planCompactions(deps.db, session.tenantId, session.sessionId));
};
