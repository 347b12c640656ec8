/** The input of a tool call, from the text that a model wrote to the text that is stored (V9). */
import { repairSurrogates } from "../protocol/json-text.ts";

/** JSON text that every reader accepts: a lone surrogate in it would be a 400 on every retry. */
export const cleanJson = (json: string): string => repairSurrogates(json.toWellFormed());

const isObjectText = (json: string): boolean => {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
};

export interface ToolInput {
  /** As it is stored: a JSON object in every case. */
  readonly stored: string;
  /** As it was streamed. */
  readonly raw: string;
  readonly valid: boolean;
}

/**
 * @param streamed the pieces as they came, joined
 * @param otherwise the input of a call for which nothing was streamed, as JSON text
 */
export const readToolInput = (streamed: string, otherwise: string): ToolInput => {
  const raw = cleanJson(streamed.trim() === "" ? otherwise : streamed);
  const valid = isObjectText(raw);
  return { raw, valid, stored: valid ? raw : JSON.stringify({ invalid_json: raw }) };
};
