/** What the sessions of the load bench are told, and what must then be in their logs, message for message. */

/** A session's turns are told apart by their texts, and so are sessions. */
export const markerOf = (session: number): string => `load-session-${session}.`;

/** Every third turn uses a tool: a file is written, which is one call of the model more. */
const usesTool = (turn: number): boolean => turn % 3 === 2;

/** @param session from 0 @param turn from 0 */
export const inputOf = (session: number, turn: number): string =>
  usesTool(turn) ? `write /turn-${turn}.md: ${markerOf(session)}` : `Turn ${turn} of ${markerOf(session)}`;

/** A row of the log as the API shows it, as far as it is looked at. */
export interface LoggedMessage {
  readonly id: string;
  readonly seq: number;
  readonly origin: string;
  readonly run_id: string | null;
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
}

const textOf = ({ content }: LoggedMessage): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");

const expectedOf = (
  session: number,
  turns: number,
): readonly { readonly origin: string; readonly turn: number; readonly text?: string }[] =>
  Array.from({ length: turns }, (_, turn) => [
    { origin: "user", turn, text: inputOf(session, turn) },
    ...(usesTool(turn) ? ["assistant", "tool"] : []).map((origin) => ({ origin, turn })),
    { origin: "assistant", turn },
  ]).flat();

/**
 * Compares a session's log with what it was told: every message once, in order, from the run of its turn.
 * @param runs ids of the runs that answered the turns, in order
 * @returns a line for each thing that is wrong; empty when nothing is
 */
export const faultsOf = (
  session: number,
  runs: readonly string[],
  log: readonly LoggedMessage[],
): readonly string[] => {
  const expected = expectedOf(session, runs.length);
  const faults = [
    ...(log.length === expected.length ? [] : [`${log.length} messages instead of ${expected.length}`]),
    ...(new Set(log.map(({ id }) => id)).size === log.length ? [] : ["a message twice"]),
    ...(new Set(runs).size === runs.length ? [] : ["two turns with one run"]),
    ...expected.flatMap(({ origin, turn, text }, at): readonly string[] => {
      const row = log[at];
      if (row === undefined) return [];
      const where = `message ${at + 1}`;
      if (row.seq !== at + 1) return [`${where} has the seq ${row.seq}`];
      if (row.origin !== origin) return [`${where} is of ${row.origin} instead of ${origin}`];
      if (row.run_id !== runs[turn]) return [`${where} is of another run than turn ${turn}`];
      return text === undefined || textOf(row) === text ? [] : [`${where} is not what turn ${turn} was told`];
    }),
  ];
  return faults.map((fault) => `session ${session}: ${fault}`);
};
