/** Ids of tool calls between chat completions and the log, whose ids the Messages API has to take as well. */

/** What the Messages API takes; OpenAI takes no more than 40 characters. */
const STORABLE = /^[A-Za-z0-9_-]{1,64}$/;
const MAX_CHAT_ID_CHARS = 40;

/** What Mistral's templates demand, and what they say when they do not get it: nine letters and digits. */
const MISTRAL_ID = /^[A-Za-z0-9]{9}$/;

/** The last run of letters and digits is long and mixed: made at random, not counted or named after its tool. */
const RANDOM_TAIL = /(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}$/;

/** 53 bits of hash (cyrb53): two ids of one session that meet in it are not to be expected. */
const hash = (text: string): number => {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    high = Math.imul(high ^ unit, 2_654_435_761);
    low = Math.imul(low ^ unit, 1_597_334_677);
  }
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  return 4_294_967_296 * (2_097_151 & low) + (high >>> 0);
};

/** Nine digits of base 36. */
const nineOf = (id: string): string => (hash(id) % 36 ** 9).toString(36).padStart(9, "0");

/**
 * A call's id as a chat completions server is sent it: the stored one where it is taken, else always the same other one, so that a call
 * and its result meet (V2).
 * @param strict the server's template takes nine letters and digits only (R8)
 */
export const wireCallId = (id: string, strict: boolean): string => {
  if (strict) return MISTRAL_ID.test(id) ? id : nineOf(id);
  return id.length <= MAX_CHAT_ID_CHARS ? id : `call_${nineOf(id)}`;
};

/**
 * The id under which an answer's call is stored. A server's own stays where it is made at random; one that is missing, counted (`call_0`),
 * named after the tool, seen before or not storable is replaced, since ids are unique in a session for ever: results are demoted and
 * offloaded by them.
 * @param given as the server sent it
 * @param isTaken whether an id is in the request or earlier in the answer
 */
export const storedCallId = (
  given: string | undefined,
  isTaken: (id: string) => boolean,
  newCallId: () => string,
): string =>
  given !== undefined && STORABLE.test(given) && RANDOM_TAIL.test(given) && !isTaken(given) ? given : newCallId();
