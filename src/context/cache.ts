/**
 * Cache marks (context.md section 10): the last stable system block, the handoff, the newest user message, and one further back when the turn
 * has added so many blocks that the provider's look-back would not find the earlier entry.
 */

import type { ViewMessage } from "../protocol/messages.ts";
import type { Middleware } from "../protocol/middleware.ts";

/** The provider looks back 20 block positions from a mark (messages-api.md, "Prompt cache"); we stay inside with some room. */
const BLOCKS_BETWEEN_MARKS = 15;

/** Blocks of a message's content, counted without parsing: the type member opens each block and is rare elsewhere. */
const blockCount = (message: ViewMessage): number => message.content.split('"type":').length - 1;

/**
 * The indices of the messages to mark: the handoff, the last user message, and where more than 15 blocks follow the last mark's place of the
 * call before, the user message nearest to 15 blocks back.
 */
export const markedMessages = (messages: readonly ViewMessage[]): readonly number[] => {
  const newest = messages.findLastIndex((message) => message.role === "user");
  if (newest < 0) return [];
  const handoff = messages.findIndex((message) => message.handoff === true);
  const opening = handoff >= 0 && handoff !== newest ? [handoff] : [];
  let blocks = 0;
  for (let at = newest - 1; at >= 0; at--) {
    const message = messages[at];
    if (message === undefined) break;
    blocks += blockCount(message);
    if (blocks >= BLOCKS_BETWEEN_MARKS && message.role === "user") return [...new Set([...opening, at, newest])];
  }
  return [...opening, newest];
};

/**
 * Marks what the provider may cache; does nothing where it cannot. Blocks that later middlewares add land after the marked system
 * block by construction, because it is chosen when this one's turn in the stack comes.
 */
export const promptCache: Middleware = {
  name: "PromptCache",
  assemble: (draft, run) => {
    const last = draft.system.at(-1);
    if (run.promptCaching && last !== undefined) draft.system[draft.system.length - 1] = { ...last, cacheMark: true };
  },
  wrapModelCall: (request, next, run) => {
    if (!run.promptCaching) return next(request);
    const marked = new Set(markedMessages(request.messages));
    return next({
      ...request,
      messages: request.messages.map((message, at) => (marked.has(at) ? { ...message, cacheMark: true } : message)),
    });
  },
};
