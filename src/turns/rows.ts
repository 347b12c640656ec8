/** New rows of the log, measured. */
import { estimateRow } from "../context/estimate-request.ts";
import type { MessageId, RunId, Seq } from "../protocol/ids.ts";
import type { LogRow, NewRow, Origin } from "../protocol/messages.ts";

export interface RowParts {
  readonly id: MessageId;
  readonly origin: Origin;
  readonly content: string;
  readonly media?: readonly string[];
  readonly calls?: readonly string[];
  readonly runId: RunId | null;
  /** The content as sent, where media make it larger than what is stored. */
  readonly sentContent?: string;
}

const encoder = new TextEncoder();

/** A row with its size and its estimate. The role follows from the origin. */
export const newRow = ({
  id,
  origin,
  content,
  media = [],
  calls = [],
  runId,
  sentContent = content,
}: RowParts): NewRow => ({
  id,
  role: origin === "assistant" ? "assistant" : "user",
  origin,
  content,
  media,
  calls,
  tokens: estimateRow(content),
  bytes: encoder.encode(sentContent).byteLength,
  runId,
});

/** A row as it will be read back. */
export const logRowOf = ({ row, seq }: { readonly row: NewRow; readonly seq: Seq }): LogRow => ({ ...row, seq });
