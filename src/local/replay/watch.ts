/** What the simulator received for one model: how many requests, which it refused, and where the beginning of the prompt changed. */
import { objectMembers } from "../../protocol/json-text.ts";
import type { ReceivedRequest } from "../simulator/record.ts";

export interface Watched {
  /** Model calls of turns. */
  readonly turnCalls: number;
  /** Calls that wrote a summary. */
  readonly summaryCalls: number;
  /** Requests that only counted. */
  readonly countCalls: number;
  /** One line for each request that was answered with an error. */
  readonly rejected: readonly string[];
  /** How often a turn's request was not the one before it with something appended. */
  readonly prefixBreaks: number;
}

const MARK = /,"cache_control":\{[^{}]*\}/g;
const CLOSING = /[\]}]+$/;

/** What of a request has to stay, in its order: tools, system prompt, messages; without cache marks. */
const prefixOf = (bodyText: string): string => {
  const members = objectMembers(bodyText);
  const text = (key: string): string => {
    const found = members.findLast((member) => member.key === key);
    return found === undefined ? "" : bodyText.slice(found.start, found.end);
  };
  return `${text("tools")}\n${text("system")}\n${text("messages")}`.replace(MARK, "");
};

/** Whether a prompt begins with all of another; the last message of the other may have been continued. */
export const extendsPrompt = (before: string, after: string): boolean =>
  prefixOf(after).startsWith(prefixOf(before).replace(CLOSING, ""));

/**
 * Watches the requests of a model from now on. `look` takes in what has come since; it has to be called before the simulator lets go of
 * the bodies.
 */
export const watchRequests = (simulator: { readonly requests: readonly ReceivedRequest[] }, model: string) => {
  const named = `"model":${JSON.stringify(model)}`;
  const rejected: string[] = [];
  let next = simulator.requests.length;
  let turnCalls = 0;
  let summaryCalls = 0;
  let countCalls = 0;
  let prefixBreaks = 0;
  let before: string | undefined;
  const take = (request: ReceivedRequest): void => {
    if (!request.bodyText.includes(named)) return;
    if (request.status >= 400)
      rejected.push(`request ${request.index} to ${request.path}: ${request.status} ${request.error ?? ""}`);
    if (request.path !== "/v1/messages") countCalls += 1;
    else if (request.purpose === "summarize") summaryCalls += 1;
    else {
      turnCalls += 1;
      if (before !== undefined && !extendsPrompt(before, request.bodyText)) prefixBreaks += 1;
      before = request.bodyText;
    }
  };
  return {
    look: (): void => {
      for (const request of simulator.requests.slice(next)) take(request);
      next = simulator.requests.length;
    },
    seen: (): Watched => ({ turnCalls, summaryCalls, countCalls, rejected, prefixBreaks }),
  };
};
