/** Asking a server on the doctor's behalf: nothing of what it answers is shown but its status and the name of its error. */
import { isRecord } from "../../protocol/is-record.ts";
import { CheckFailed, hostOf } from "./check.ts";

export interface Answered {
  readonly status: number;
  /** The body as JSON; undefined for anything else. */
  readonly json: unknown;
}

/** Longest answer that is read, in bytes: lists of models have some hundred KB. */
const MAX_ANSWER_BYTES = 4_000_000;

const bodyOf = async (response: Response): Promise<unknown> => {
  if (Number(response.headers.get("Content-Length") ?? 0) > MAX_ANSWER_BYTES) {
    await response.body?.cancel();
    return undefined;
  }
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/**
 * Sends a request; follows no redirect, since headers hold keys.
 * @throws CheckFailed when nothing answers; whatever the signal aborts with
 */
export const ask = async (doFetch: typeof fetch, url: string, init: RequestInit): Promise<Answered> => {
  try {
    const response = await doFetch(url, { ...init, redirect: "manual" });
    return { status: response.status, json: await bodyOf(response) };
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw new CheckFailed(`nothing answers at ${hostOf(url)}: see the address, and whether it is up`);
  }
};

/** `401 authentication_error`: the status, and the error's type where it has one that is a mere name. */
export const statusInWords = ({ status, json }: Answered): string => {
  const error = isRecord(json) && isRecord(json.error) ? json.error : {};
  const type = typeof error.type === "string" && /^[a-z_]{1,40}$/.test(error.type) ? ` ${error.type}` : "";
  return `${status}${type}`;
};
