/** What micro-compaction has brought, as text: the room that is left first, then the long pauses avoided, then tokens. Plain ASCII, for any console. */

/** A session as `GET /v1/sessions/{id}/context` reports it. */
export interface ReportedSession {
  readonly id: string;
  readonly enabled: boolean;
  /** Share of the trigger; null where the window is not known. */
  readonly occupancy: number | null;
  readonly avoided: number | null;
  readonly batch: number;
  readonly passes: number;
  readonly tokensSaved: number;
}

const number = (value: number): string => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const share = (value: number | null): string => (value === null ? "unknown" : value.toFixed(3));
const count = (value: number | null): string => (value === null ? "unknown" : number(value));
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const plural = (value: number, one: string): string => `${number(value)} ${one}${value === 1 ? "" : "s"}`;
/** Names are a caller's: whatever is not plain is shown as a question mark. */
const plain = (text: string): string => text.replace(/[^\x20-\x7e]/g, "?");

const occupancyLine = (sessions: readonly ReportedSession[]): string => {
  const known = sessions.flatMap(({ occupancy }) => (occupancy === null ? [] : [occupancy]));
  if (known.length === 0) return "Occupancy: unknown, no model's window is known";
  const mean = sum(known) / known.length;
  return `Occupancy: ${share(mean)} of the trigger (mean of ${plural(known.length, "session")}), at most ${share(Math.max(...known))}`;
};

const COLUMNS = ["session", "occupancy", "avoided", "batch", "tokens saved", "passes", "on"] as const;

const cells = (session: ReportedSession): readonly string[] => [
  plain(session.id),
  share(session.occupancy),
  count(session.avoided),
  number(session.batch),
  number(session.tokensSaved),
  number(session.passes),
  session.enabled ? "yes" : "no",
];

const table = (rows: readonly (readonly string[])[]): readonly string[] => {
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
};

/** The report of sessions that have micro-compaction on, or had passes. */
export const renderReport = (sessions: readonly ReportedSession[]): string => {
  const shown = sessions.filter(({ enabled, passes }) => enabled || passes > 0);
  if (shown.length === 0)
    return `No micro-compaction: it is off in ${plural(sessions.length, "session")}, and there were no passes.\n`;
  const avoided = shown.flatMap((session) => (session.avoided === null ? [] : [session.avoided]));
  return [
    occupancyLine(shown),
    `Batch compactions avoided: ${avoided.length === 0 ? "unknown" : `about ${number(sum(avoided))}`}; ${number(sum(shown.map(({ batch }) => batch)))} happened`,
    `Tokens: ${number(sum(shown.map(({ tokensSaved }) => tokensSaved)))} less in view, by ${plural(sum(shown.map(({ passes }) => passes)), "pass").replace("passs", "passes")}`,
    "",
    ...table([COLUMNS, ...shown.map(cells)]),
    "",
  ].join("\n");
};
