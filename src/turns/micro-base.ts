/** Whether the generation that a pass of micro-compaction would build on is there, whole (section 11): else the pass would replace what it cannot read. */

import { isRecord } from "../protocol/is-record.ts";
import type { ReadSession } from "../store/reading.ts";
import { generationOf } from "./stored-view.ts";

/** False where the view shows a generation that is not there, or that does not read as one. */
export const isBaseReadable = ({ baseMissing, view }: Pick<ReadSession, "baseMissing" | "view">): boolean => {
  if (baseMissing) return false;
  const stored = view?.generation ?? null;
  if (stored === null) return true;
  try {
    const { sections, rendered, covered } = generationOf(stored);
    return (
      covered.length > 0 &&
      typeof rendered === "string" &&
      isRecord(sections) &&
      ["userMessages", "olderMessages", "answers", "files", "identifiers", "families"].every((name) =>
        Array.isArray(Reflect.get(sections, name)),
      )
    );
  } catch {
    return false;
  }
};
