/** Failures of the bucket that pass by themselves. */

/**
 * R2's codes for: internal error, service unavailable, client disconnect, rate limit on a key
 * (Cloudflare's list of R2 error codes).
 */
const PASSING_CODES = ["10001", "10043", "10054", "10058"];

/** The bucket did not do what it was asked, and may the next time. The message is R2's own. */
export class BucketUnavailable extends Error {
  override readonly name = "BucketUnavailable";

  /** Reads an error of a bucket's method; any other is returned as it is. */
  static from(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    // The platform says of a connection that broke, or of a bucket that it could not ask, that the call may be made again.
    if (Reflect.get(error, "retryable") === true) return new BucketUnavailable(error.message, { cause: error });
    const code = /\((\d{5})\)\s*$/.exec(error.message)?.[1];
    return code !== undefined && PASSING_CODES.includes(code)
      ? new BucketUnavailable(error.message, { cause: error })
      : error;
  }
}
