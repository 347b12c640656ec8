/** What a configuration that is right says about itself. */
import type { Config } from "../../config.ts";

/**
 * One line for a configuration that was read: the models, and what somebody who runs it for others should know is on.
 * A wrong one never gets here: the Worker refuses to work with it.
 */
export const configurationInWords = (config: Config): string => {
  const { summarizerModel } = config.context;
  const known = [
    `the default model is ${config.defaultModel}`,
    ...(summarizerModel === undefined ? [] : [`summaries are written by ${summarizerModel}`]),
    ...(config.retentionDays === undefined ? [] : [`sessions are erased after ${config.retentionDays} unused days`]),
    ...(config.captureContent ? ["HANGO_CAPTURE_CONTENT is on: spans hold prompts and answers"] : []),
    ...(config.allowPrivateUrls ? ["HANGO_ALLOW_PRIVATE_URLS is on, which is for development"] : []),
    ...(config.rateLimiter === undefined ? ["there is no rate limit"] : []),
  ];
  return `every variable is valid; ${known.join("; ")}`;
};
