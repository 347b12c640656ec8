/** The todo list as it was at an earlier point of a log: what the newest call that wrote it, and was not refused, says. */

import { blockTexts } from "../context/imported.ts";
import { isRecord } from "../protocol/is-record.ts";
import type { TodoCall } from "../store/undoing.ts";
import { readTodos } from "./settings.ts";

const blocksOf = (content: string): readonly Readonly<Record<string, unknown>>[] =>
  blockTexts(content)
    .map((block): unknown => JSON.parse(block))
    .filter(isRecord);

const refused = ({ results }: TodoCall, id: unknown): boolean => {
  const result = results === null ? undefined : blocksOf(results).find((block) => block["tool_use_id"] === id);
  return result === undefined || result["is_error"] === true;
};

const listOf = (input: unknown): readonly unknown[] | undefined => {
  try {
    return isRecord(input) ? readTodos(input["todos"]) : undefined;
  } catch {
    return undefined;
  }
};

/** @param calls newest first @returns empty where no list was written */
export const todosOf = (calls: readonly TodoCall[]): readonly unknown[] => {
  for (const call of calls) {
    const written = blocksOf(call.content).filter(({ type, name }) => type === "tool_use" && name === "write_todos");
    for (const { id, input } of written.reverse()) {
      const list = refused(call, id) ? undefined : listOf(input);
      if (list !== undefined) return list;
    }
  }
  return [];
};
