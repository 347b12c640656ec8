/** An answer that is being written: told piece by piece, and stored now and then for clients that attach in its middle. */
import type { Journal } from "../agent/ports.ts";
import type { MessageId, NewId } from "../protocol/ids.ts";

/** How often the text so far is stored, in ms. */
const STORE_INTERVAL_MS = 5_000;

export interface DraftOptions {
  readonly newId: NewId;
  readonly now: () => number;
  readonly tell: (type: string, data: object) => void;
  /** Stores the text so far, and keeps the session for the run; null while no answer is being written. */
  readonly store: (draft: string | null) => Promise<void>;
  readonly onFailure: (error: unknown) => void;
}

export interface Draft extends Pick<Journal, "answering" | "delta" | "heartbeat"> {
  /** Drops the answer that is being written. */
  abandon(): void;
  /** Waits for a write under way: it must not land after what comes next. */
  settle(): Promise<void>;
  /** Ends the draft. @returns the id that clients know the answer by */
  end(): MessageId | null;
  /** The text so far. */
  text(): string;
}

export const createDraft = ({ newId, now, tell, store, onFailure }: DraftOptions): Draft => {
  let answer: { readonly id: MessageId; readonly index: number; readonly text: string } | null = null;
  let storedMs = now();
  let storing: Promise<void> | null = null;

  const asJson = (): string | null =>
    answer === null
      ? null
      : JSON.stringify({ message_id: answer.id, index: Math.max(0, answer.index), text: answer.text.toWellFormed() });

  return {
    answering: () => {
      answer = { id: newId("msg"), index: -1, text: "" };
      tell("message.started", { message_id: answer.id, role: "assistant" });
    },
    delta: ({ kind, index, offset, text }) => {
      if (answer === null) return;
      if (kind === "text") answer = { ...answer, index, text: index === answer.index ? answer.text + text : text };
      tell("message.delta", { message_id: answer.id, kind, index, offset, text });
    },
    heartbeat: () => {
      if (storing !== null || now() - storedMs < STORE_INTERVAL_MS) return;
      storedMs = now();
      storing = store(asJson())
        .catch(onFailure)
        .finally(() => {
          storing = null;
        });
    },
    abandon: () => {
      answer = null;
    },
    settle: async () => {
      if (storing !== null) await storing;
    },
    end: () => {
      const id = answer?.id ?? null;
      answer = null;
      return id;
    },
    text: () => answer?.text ?? "",
  };
};
