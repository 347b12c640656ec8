/** Points and what became of the turn, as a table. */
import { type Mode, nameOf, type Point } from "./faults.ts";

/** @param outcomes by `point|mode`; points without any are left out */
export const tableOf = (
  points: readonly Point[],
  modes: readonly Mode[],
  outcomes: ReadonlyMap<string, string>,
): string => {
  const rows = points
    .map((point) => [nameOf(point), ...modes.map((mode) => outcomes.get(`${nameOf(point)}|${mode}`) ?? "")])
    .filter((row) => row.slice(1).some((cell) => cell !== ""));
  const table = [["call", ...modes], ...rows];
  const widths = (table[0] ?? []).map((_, column) => Math.max(...table.map((row) => (row[column] ?? "").length)));
  const lines = table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const counts = new Map<string, number>();
  for (const outcome of outcomes.values()) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  const totals = [...counts].map(([outcome, count]) => `${outcome}: ${count}`).join(", ");
  return `${lines.join("\n")}\n${rows.length} of ${points.length} points in ${modes.length} ways, ${outcomes.size} runs. ${totals}`;
};
