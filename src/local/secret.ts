/** Secrets for the local platform. */
import { randomBytes } from "node:crypto";

/** Random text of URL-safe characters. @param bytes of randomness */
export const randomSecret = (bytes: number): string => randomBytes(bytes).toString("base64url");
