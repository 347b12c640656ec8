/** What the validator can find (C7), as data and in words. */

/** A rule that a list of messages breaks, and at which message (counted from 0). */
export type Problem =
  | { readonly kind: "no_messages"; readonly index: 0 }
  | { readonly kind: "malformed"; readonly index: number }
  | { readonly kind: "empty_message"; readonly index: number }
  | { readonly kind: "blank_text"; readonly index: number }
  | { readonly kind: "bad_unicode"; readonly index: number }
  | { readonly kind: "first_not_user"; readonly index: number }
  | { readonly kind: "last_not_user"; readonly index: number }
  | { readonly kind: "last_not_assistant"; readonly index: number }
  | { readonly kind: "misplaced_call"; readonly index: number; readonly id: string }
  | { readonly kind: "duplicate_call"; readonly index: number; readonly id: string }
  | { readonly kind: "unanswered_call"; readonly index: number; readonly id: string }
  | { readonly kind: "unexpected_result"; readonly index: number; readonly id: string }
  | { readonly kind: "duplicate_result"; readonly index: number; readonly id: string }
  | { readonly kind: "late_result"; readonly index: number; readonly id: string }
  | { readonly kind: "unanswered_server_call"; readonly index: number; readonly id: string }
  | { readonly kind: "unexpected_server_result"; readonly index: number; readonly id: string }
  | { readonly kind: "too_many_marks"; readonly index: number; readonly marks: number }
  | { readonly kind: "bad_mark"; readonly index: number }
  | { readonly kind: "second_handoff"; readonly index: number }
  | { readonly kind: "out_of_turn"; readonly index: number }
  | { readonly kind: "no_live_ask"; readonly index: number };

/** A problem in words, for logs: never the content of a message. */
export const problemWords = (problem: Problem): string => {
  const at = `message ${problem.index}`;
  switch (problem.kind) {
    case "no_messages":
      return "there is no message";
    case "malformed":
      return `${at} is no array of content blocks`;
    case "empty_message":
      return `${at} has no content`;
    case "blank_text":
      return `${at} has a text without a visible character`;
    case "bad_unicode":
      return `${at} holds half of a surrogate pair`;
    case "first_not_user":
      return "the first message is not a user's";
    case "last_not_user":
      return "the last message is not a user's";
    case "last_not_assistant":
      return "a paused answer does not stand last";
    case "misplaced_call":
      return `${at} is a user's and holds the call ${problem.id}`;
    case "duplicate_call":
      return `${at} repeats the id of the call ${problem.id}`;
    case "unanswered_call":
      return `${at} holds the call ${problem.id}, and the next message does not answer it`;
    case "unexpected_result":
      return `${at} answers the call ${problem.id}, which the message before it does not hold`;
    case "duplicate_result":
      return `${at} answers the call ${problem.id} twice`;
    case "late_result":
      return `${at} answers the call ${problem.id} after other content`;
    case "unanswered_server_call":
      return `${at} holds the provider's call ${problem.id} without its result`;
    case "unexpected_server_result":
      return `${at} holds the result of the provider's call ${problem.id} without that call`;
    case "too_many_marks":
      return `there are ${problem.marks} cache marks on messages, more than are left`;
    case "bad_mark":
      return `${at} is marked on a block that cannot carry a cache mark`;
    case "second_handoff":
      return `${at} is a second handoff`;
    case "out_of_turn":
      return `${at} has the role of the message before it, as a strict template counts them`;
    case "no_live_ask":
      return "the request in progress is not in the view";
    default:
      return problem satisfies never;
  }
};
