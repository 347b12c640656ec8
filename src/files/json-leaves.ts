/** Strings in JSON text whose spelling there is not their text, found in one pass: what a reader cannot grep for as it is. */
import { endOfString } from "../protocol/json-text.ts";

export interface Leaf {
  /** Where the string stands: `edits[0].new_string`; empty for a string on its own. */
  readonly path: string;
  readonly text: string;
}

interface Frame {
  readonly array: boolean;
  key: string;
  index: number;
  /** The next string is a key. */
  atKey: boolean;
}

/** A label, not an address: of deep nesting the innermost levels are told. */
const MAX_LEVELS = 12;

const stepOf = ({ array, key, index }: Frame, at: number): string => {
  if (array) return `[${index}]`;
  if (!/^[A-Za-z_][\w-]{0,60}$/.test(key)) return `[${JSON.stringify(key.slice(0, 60))}]`;
  return at === 0 ? key : `.${key}`;
};

const pathOf = (frames: readonly Frame[]): string =>
  (frames.length > MAX_LEVELS ? "..." : "") + frames.slice(-MAX_LEVELS).map(stepOf).join("");

/**
 * The string values that hold an escape, in order, with their text. Keys are not among them.
 * @param json text that `JSON.parse` accepts
 */
export const escapedLeaves = (json: string): readonly Leaf[] => {
  if (!json.includes("\\")) return [];
  const leaves: Leaf[] = [];
  const frames: Frame[] = [];
  const token = /["{}[\],:]/g;
  for (let match = token.exec(json); match !== null; match = token.exec(json)) {
    const frame = frames.at(-1);
    switch (match[0]) {
      case "{":
      case "[":
        frames.push({ array: match[0] === "[", key: "", index: 0, atKey: match[0] === "{" });
        break;
      case "}":
      case "]":
        frames.pop();
        break;
      case ",":
        if (frame?.array === true) frame.index++;
        else if (frame !== undefined) frame.atKey = true;
        break;
      case ":":
        if (frame !== undefined) frame.atKey = false;
        break;
      default: {
        const end = endOfString(json, match.index);
        token.lastIndex = end;
        const spelled = json.slice(match.index, end);
        if (frame?.atKey === true) frame.key = String(JSON.parse(spelled));
        else if (spelled.includes("\\")) leaves.push({ path: pathOf(frames), text: String(JSON.parse(spelled)) });
      }
    }
  }
  return leaves;
};
