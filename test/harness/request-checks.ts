/**
 * What must hold of every request that the provider gets, held against the log and the recorded view as they are at that moment. None of it asks the code
 * under test whether it did well.
 */
import type { Lane } from "./lane.ts";
import { type Block, holds, marksIn, rangesOf, type Shown, shownBy } from "./log-text.ts";
import type { SeenRequest } from "./provider.ts";
import { type LogEntry, type ViewRecord, viewRecord } from "./records.ts";
import type { Violate } from "./under-test.ts";

/** One user's text, as it was sent. */
const textsOf = (entry: LogEntry): readonly string[] =>
  (JSON.parse(entry.content) as readonly Block[]).flatMap(({ type, text }) =>
    type === "text" && text !== undefined && text.trim() !== "" ? [text] : [],
  );

const isRequest = ({ origin, content }: LogEntry): boolean =>
  (origin === "user" || origin === "event") &&
  (JSON.parse(content) as readonly Block[]).some(({ type, text }) => type !== "text" || text?.trim() !== "");

/** By what a row is found in a request. */
const tracesOf = (entry: LogEntry): readonly string[] => {
  const blocks = JSON.parse(entry.content) as readonly Block[];
  return [
    ...blocks.flatMap(({ type, text }) => (type === "text" ? marksIn(text ?? "") : [])),
    ...entry.calls.map((id) => `call ${id}`),
    ...blocks.flatMap(({ type, tool_use_id }) => (type === "tool_result" ? [`result ${tool_use_id}`] : [])),
  ];
};

/** V3: every row that was not undone is covered, hidden, or shown once; what is undone is shown nowhere (R3). */
const checkCoverage = (log: readonly LogEntry[], view: ViewRecord, shown: Shown, violate: Violate): void => {
  const covered = rangesOf(view.covered);
  const hidden = rangesOf(view.hidden);
  const rewound = rangesOf(view.rewound);
  const wanted = new Map<string, number>();
  const rows: { readonly entry: LogEntry; readonly where: string; readonly traces: readonly string[] }[] = [];
  for (const entry of log) {
    const where = holds(rewound, entry.seq)
      ? "undone"
      : holds(covered, entry.seq)
        ? "covered"
        : holds(hidden, entry.seq)
          ? "hidden"
          : "shown";
    const traces = tracesOf(entry);
    rows.push({ entry, where, traces });
    // A turn that is run again has the bytes of one that was undone.
    for (const trace of traces) wanted.set(trace, (wanted.get(trace) ?? 0) + Number(where === "shown"));
  }
  for (const { entry, where, traces } of rows)
    for (const trace of traces) {
      const found = shown.counts.get(trace) ?? 0;
      if (found !== wanted.get(trace))
        violate("V3", `row ${entry.seq} (${entry.origin}, ${where}): ${trace} is shown ${found} times`);
    }
};

/** C4: the newest request is there once, word for word, as its row or restated. */
const checkAsk = (log: readonly LogEntry[], view: ViewRecord, shown: Shown, violate: Violate): void => {
  const rewound = rangesOf(view.rewound);
  const ask = log.findLast((entry) => isRequest(entry) && !holds(rewound, entry.seq));
  if (ask === undefined) return;
  const pinned = view.pinned === ask.seq;
  for (const text of textsOf(ask)) {
    const whole = Number(shown.userTexts.has(text));
    const restated = shown.restated.split(text).length - 1;
    if (whole + restated !== 1 || (restated === 1) !== pinned)
      violate("C4", `ask ${ask.seq} is shown ${whole} times and restated ${restated} times${pinned ? ", pinned" : ""}`);
  }
};

export interface RequestChecks {
  /** Every request, before it is answered. @param late the Worker was overtaken: what it sends is lost anyhow */
  seen(request: SeenRequest, late: boolean): Promise<void>;
  /** The log as far as it is known. */
  readonly log: readonly LogEntry[];
}

export const requestChecks = (lane: Lane, sessionId: string, violate: Violate): RequestChecks => {
  const log: LogEntry[] = [];
  let last: { readonly revision: number; readonly texts: readonly string[]; readonly fixed: string } | null = null;
  return {
    log,
    seen: async ({ body, model }, late) => {
      if (late) return;
      // Behind a batch that was left open there may be rows already: its results come between.
      const whole = log.findIndex(({ seq }, at) => seq !== at + 1);
      if (whole >= 0) log.length = whole;
      const view = await viewRecord(lane, sessionId, log.length);
      if (!view.held) return;
      log.push(...view.rows);
      const shown = shownBy(body);
      if (shown.handoffs > 1) violate("S4", `${shown.handoffs} handoffs`);
      if (shown.handoffs === 1 && !shown.handoffFirst) violate("S4", "the handoff is not the first message");
      checkCoverage(log, view, shown, violate);
      checkAsk(log, view, shown, violate);
      // V2: without a new revision the earlier request is the beginning of this one.
      const fixed = JSON.stringify([model, body.system, body.tools]);
      if (last !== null && last.revision === view.revision && last.fixed === fixed) {
        const before = last.texts;
        const differs = before.findIndex((text, at) => shown.texts[at] !== text);
        if (differs >= 0)
          violate("V2", `revision ${view.revision}: message ${differs} of ${before.length} is not what it was`);
      }
      last = { revision: view.revision, texts: shown.texts, fixed };
    },
  };
};
