/**
 * The order of a transcript, page by page: who speaks after whom, and which result answers which call. What earlier pages left is
 * all that the check of a page needs to know, so a transcript gives the same rows however it is cut into pages.
 */
import type { Role } from "../../protocol/messages.ts";
import { type DraftMessage, TranscriptError } from "./draft.ts";

/** The last row of the log, before a page. */
export interface LogEnd {
  /** Null when the log is empty. */
  readonly role: Role | null;
  /** Ids of the row's client-side calls. */
  readonly calls: readonly string[];
}

/** A call that no result answers: accepted, and told to the caller (C3). */
export interface UnansweredCall {
  /** Index of its message in the page. */
  readonly index: number;
  readonly id: string;
  readonly name: string;
}

const checkTurn = (message: DraftMessage, before: Role | null): void => {
  if (before === null && message.role !== "user") {
    throw new TranscriptError(`${message.path}.role`, "expected user: the first message of a session is the user's");
  }
  if (before === "assistant" && message.role === "assistant") {
    throw new TranscriptError(
      `${message.path}.role`,
      "expected user: the message before is the assistant's too; join the two into one",
    );
  }
};

const checkResults = (message: DraftMessage, open: ReadonlySet<string>): ReadonlySet<string> => {
  const answered = new Set<string>();
  for (const { id, path } of message.results) {
    if (answered.has(id)) throw new TranscriptError(path, `expected one result per call: "${id}" is answered twice`);
    if (!open.has(id)) {
      throw new TranscriptError(
        path,
        `expected the id of a call in the assistant message directly before this one, which "${id}" is not; all results of a message stand in the one message after it`,
      );
    }
    answered.add(id);
  }
  return answered;
};

const checkCalls = (message: DraftMessage, seen: Set<string>, known: ReadonlySet<string>): void => {
  for (const { id, path } of message.calls) {
    if (seen.has(id) || known.has(id)) {
      throw new TranscriptError(path, `expected an id that is used once in the session: "${id}" is an earlier call's`);
    }
    seen.add(id);
  }
};

/**
 * Checks a page against what is in the log.
 * @param known ids of calls in earlier pages; at least those that the page uses too
 * @returns the page's calls that have no result in it; those of its last message may still get one from the next page
 * @throws TranscriptError
 */
export const checkPage = (
  page: readonly DraftMessage[],
  end: LogEnd,
  known: ReadonlySet<string>,
): readonly UnansweredCall[] => {
  const seen = new Set<string>();
  const unanswered: UnansweredCall[] = [];
  let before = end.role;
  let open: ReadonlySet<string> = new Set(end.role === "assistant" ? end.calls : []);
  page.forEach((message, index) => {
    checkTurn(message, before);
    checkCalls(message, seen, known);
    const answered = checkResults(message, open);
    const previous = page[index - 1];
    for (const call of previous?.calls ?? []) {
      if (!answered.has(call.id)) unanswered.push({ index: index - 1, id: call.id, name: call.name });
    }
    before = message.role;
    open = new Set(message.calls.map(({ id }) => id));
  });
  const last = page.at(-1);
  for (const { id, name } of last?.calls ?? []) unanswered.push({ index: page.length - 1, id, name });
  return unanswered;
};
