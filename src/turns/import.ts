/** Appends a page of an existing transcript to a session that has had no turn. */
import { r2MediaStore } from "../files/media.ts";
import type { MessageId, SessionId, TenantId } from "../protocol/ids.ts";
import { seq } from "../protocol/ids.ts";
import { externaliseMedia } from "../protocol/media-text.ts";
import type { NewRow, Origin } from "../protocol/messages.ts";
import type { Claim } from "../store/idempotency.ts";
import { type ImportState, lookForImport, nextPlace, storeImport } from "../store/import.ts";
import type { SessionRef } from "../store/session-ref.ts";
import type { PlacedRow } from "../store/statements.ts";
import type { Deps } from "./deps.ts";
import { sessionRoot } from "./objects.ts";
import { newRow } from "./rows.ts";
import { checkPage } from "./transcript/check.ts";
import type { DraftMessage } from "./transcript/draft.ts";
import { isForeignHandoff } from "./transcript/handoff.ts";
import { readPage } from "./transcript/page.ts";

export interface ImportRequest {
  readonly tenantId: TenantId;
  readonly session: SessionRef;
  /** The request's body: JSON text. */
  readonly body: string;
  /** Id of the first row: what an idempotency key stands for. */
  readonly firstId: MessageId;
  readonly claim: Claim | null;
  /** Puts the result into words; stored for a repeated request. */
  readonly render: (result: ImportResult) => string;
}

export interface ImportResult {
  readonly sessionId: SessionId;
  readonly imported: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** Calls without a result so far (C3). Those of the last row may get theirs from the next page. */
  readonly unanswered: readonly { readonly seq: number; readonly id: string; readonly name: string }[];
  /** Seqs of other systems' handoffs. */
  readonly injected: readonly number[];
  /** Messages in which lone surrogates were replaced. */
  readonly repaired: number;
}

export type ImportOutcome =
  | { readonly kind: "imported"; readonly response: string; readonly replayed: boolean }
  | { readonly kind: "session_not_found" }
  | { readonly kind: "had_turn" }
  /** Another import changed the session meanwhile; nothing was stored. */
  | { readonly kind: "overtaken" }
  | { readonly kind: "idempotency_mismatch" };

/** Where a row comes from. Results stay `tool` when there is something beside them: they are never a user's words alone. */
const originOf = (draft: DraftMessage): Origin => {
  if (isForeignHandoff(draft.role, draft.texts)) return "injected";
  if (draft.role === "assistant") return "assistant";
  return draft.results.length > 0 ? "tool" : "user";
};

const toRow = async (
  draft: DraftMessage,
  id: MessageId,
  putMedia: (text: string) => Promise<string>,
): Promise<NewRow> => {
  const { content, media } = await externaliseMedia(draft.content, putMedia);
  const calls = draft.calls.map((call) => call.id);
  const parts = { id, origin: originOf(draft), content, media, calls, runId: null, sentContent: draft.content };
  // A handoff may have been written in the assistant's name, so the role does not follow from the origin here.
  return { ...newRow(parts), role: draft.role };
};

const placeRows = async (deps: Deps, request: ImportRequest, state: ImportState, page: readonly DraftMessage[]) => {
  const media = r2MediaStore(deps.bucket, sessionRoot(request.tenantId, state.sessionId), deps.sleep);
  const first = nextPlace(state);
  const rows: PlacedRow[] = [];
  for (const [index, draft] of page.entries()) {
    const id = index === 0 ? request.firstId : deps.newId("msg");
    rows.push({ row: await toRow(draft, id, media.put), seq: seq(first + index) });
  }
  return rows;
};

/**
 * Checks a page and stores it, whole or not at all, in two round trips. Media go to R2 first (V10): of a page that is then not
 * stored they are left behind, under their hash, until the session is erased.
 * @throws TranscriptError for a page that breaks a rule; StoreUnavailable
 */
export const importPage = async (deps: Deps, request: ImportRequest): Promise<ImportOutcome> => {
  const { tenantId, session, claim } = request;
  const page = readPage(request.body);
  const callIds = page.flatMap(({ calls }) => calls.map(({ id }) => id));
  const look = await lookForImport(deps.db, tenantId, session, callIds, claim);
  if (look.state === undefined) return { kind: "session_not_found" };
  if (look.claim.kind === "mismatch") return { kind: "idempotency_mismatch" };
  if (look.claim.kind === "replay" && look.claim.response !== null) {
    return { kind: "imported", response: look.claim.response, replayed: true };
  }
  const { state } = look;
  if (state.hadTurn) return { kind: "had_turn" };
  const unanswered = checkPage(page, { role: state.last?.role ?? null, calls: state.last?.calls ?? [] }, state.known);

  const rows = await placeRows(deps, request, state, page);
  const first = nextPlace(state);
  const response = request.render({
    sessionId: state.sessionId,
    imported: rows.length,
    firstSeq: first,
    lastSeq: first + rows.length - 1,
    unanswered: unanswered.map(({ index, id, name }) => ({ seq: first + index, id, name })),
    injected: rows.filter(({ row }) => row.origin === "injected").map((placed) => placed.seq),
    repaired: page.filter(({ repaired }) => repaired).length,
  });
  const outcome = await storeImport(deps.db, { tenantId, state, rows, claim, response });
  switch (outcome.kind) {
    case "stored":
      return { kind: "imported", response, replayed: false };
    case "replay":
      return outcome.response === null
        ? { kind: "overtaken" }
        : { kind: "imported", response: outcome.response, replayed: true };
    case "mismatch":
      return { kind: "idempotency_mismatch" };
    case "overtaken":
      return outcome;
    default:
      return outcome satisfies never;
  }
};
