/**
 * What holds for every session, by the rules of context.md. Each property reads the record of a session and says what breaks it; none
 * asks the code under test whether it did well.
 */
import { createHash } from "node:crypto";
import { project } from "../../src/context/calibration.ts";
import { estimateRequest } from "../../src/context/estimate-request.ts";
import { END_MARK } from "../../src/context/handoff.ts";
import { contains, type SeqRange, type ViewState } from "../../src/context/view-state.ts";
import type { LogRow, ModelRequest, ViewMessage } from "../../src/protocol/messages.ts";
import type { Committed, Sent, SessionProperty, SessionRecord } from "./session-record.ts";
import { skillsNamed, skillsWholeOrMarked } from "./skill-properties.ts";

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly tool_use_id?: string;
  readonly id?: string;
}

const parsedContents = new WeakMap<object, readonly Block[]>();

const blocksOf = (message: ViewMessage | LogRow): readonly Block[] => {
  const known = parsedContents.get(message);
  if (known !== undefined) return known;
  const blocks = JSON.parse(message.content) as readonly Block[];
  parsedContents.set(message, blocks);
  return blocks;
};

const textsOf = (message: ViewMessage | LogRow): readonly string[] =>
  blocksOf(message).flatMap((block) => (block.type === "text" ? [block.text ?? ""] : []));

/** R2, said once more. */
const isRequest = (row: LogRow): boolean =>
  (row.origin === "user" || row.origin === "event") &&
  blocksOf(row).some((block) => block.type !== "tool_result" && (block.type !== "text" || block.text?.trim() !== ""));

/** The request that nobody has answered to its end: C4's open ask. */
const openAskOf = (log: readonly LogRow[]): LogRow | undefined => {
  const newest = log.findLast((row) => isRequest(row) || (row.role === "assistant" && row.calls.length === 0));
  return newest?.role === "user" ? newest : undefined;
};

const rowsIn = (log: readonly LogRow[], ranges: readonly SeqRange[]): readonly LogRow[] =>
  log.filter((row) => contains(ranges, row.seq));

const coveredBy = (view: ViewState): readonly SeqRange[] => view.generation?.covered ?? [];

const logAt = ({ log }: SessionRecord, at: { readonly logLength: number }): readonly LogRow[] =>
  log.slice(0, at.logLength);

const handoffOf = (request: ModelRequest): ViewMessage | undefined =>
  request.messages.find((message) => message.handoff === true);

const occurrences = (text: string, part: string): number => text.split(part).length - 1;

/** The same for each request, with where it was. */
const eachSent =
  (check: (sent: Sent, record: SessionRecord, index: number) => readonly string[]): SessionProperty["check"] =>
  (record) =>
    record.sent.flatMap((sent, index) =>
      check(sent, record, index).map((words) => `request ${index} of turn ${sent.turn}: ${words}`),
    );

const eachCommit =
  (check: (commit: Committed, record: SessionRecord, index: number) => readonly string[]): SessionProperty["check"] =>
  (record) =>
    record.commits.flatMap((commit, index) =>
      check(commit, record, index).map((words) => `commit ${index} of turn ${commit.turn}: ${words}`),
    );

const validates: SessionProperty = {
  name: "every request is one that the provider takes (C7, V5, V6)",
  check: (record) => [
    ...eachSent(({ outcome, words }, { plan }) => {
      if (outcome === "rejected") return [words];
      // Thinking that nobody signed can only be found out by asking.
      return outcome === "signature" && !plan.importedAsOwn ? [words] : [];
    })(record),
    ...record.turns.flatMap(({ outcome, words }, turn) =>
      outcome === "signature" || outcome === "rejected" || outcome === "invalid"
        ? [`turn ${turn} failed: ${words}`]
        : [],
    ),
    ...record.invalid.map((words) => `our own validator: ${words}`),
    ...(record.links !== null && record.links.byBody !== record.links.byMessages
      ? ["the body as text is another request than its messages"]
      : []),
  ],
};

const asksOnce: SessionProperty = {
  name: "the live ask is shown exactly once: its row, verbatim, or pinned (C4)",
  check: eachSent(({ request, view, logLength }, record) => {
    const ask = openAskOf(logAt(record, { logLength }));
    if (ask === undefined) return [];
    if (contains(view.hidden, ask.seq)) return [`ask ${ask.seq} is hidden`];
    const isCovered = contains(coveredBy(view), ask.seq);
    const isPinned = view.generation?.pinned?.seq === ask.seq;
    if (isCovered !== isPinned)
      return [`ask ${ask.seq} is ${isCovered ? "covered" : "shown"} and ${isPinned ? "" : "not "}pinned`];
    const texts = textsOf(ask);
    const handoff = handoffOf(request);
    if (isPinned) {
      const after = handoff === undefined ? "" : (textsOf(handoff)[0]?.split(END_MARK).at(-1) ?? "");
      const missing = texts.filter((text) => !after.includes(text));
      if (missing.length > 0) return [`the pinned ask ${ask.seq} is not restated word for word`];
    } else {
      const rows = request.messages.filter(
        (message) =>
          message.role === "user" && message !== handoff && texts.every((text) => textsOf(message).includes(text)),
      );
      if (rows.length === 0) return [`ask ${ask.seq} is not shown verbatim`];
    }
    const tagged = texts.find((text) => text.startsWith("This is request number"));
    if (tagged === undefined) return [];
    const times = request.messages.reduce(
      (sum, message) => sum + (message.role === "user" ? occurrences(textsOf(message).join("\n"), tagged) : 0),
      0,
    );
    return times === 1 ? [] : [`ask ${ask.seq} is shown ${times} times`];
  }),
};

/** What stands for a row: its role, and the ids of its calls and results. */
const traceOf = (message: ViewMessage | LogRow): string =>
  `${message.role} ${blocksOf(message)
    .flatMap((block) =>
      block.type === "tool_use" ? [block.id] : block.type === "tool_result" ? [block.tool_use_id] : [],
    )
    .join()}`;

const coverage: SessionProperty = {
  name: "every row is covered, shown or hidden, and never two of them, through all generations (V3, C1 to C6)",
  check: (record) => [
    ...eachSent(({ request, view, logLength }) => {
      const log = logAt(record, { logLength });
      const covered = rowsIn(log, coveredBy(view));
      const both = covered.filter((row) => contains(view.hidden, row.seq));
      if (both.length > 0) return [`row ${both[0]?.seq} is covered and hidden`];
      const shown = log.filter((row) => !contains(coveredBy(view), row.seq) && !contains(view.hidden, row.seq));
      // Stubs stand for no row; each row's own calls and results are in the order of the log.
      const messages = request.messages.filter((message) => message.handoff !== true).map(traceOf);
      let at = 0;
      for (const row of shown) {
        const trace = traceOf(row);
        const [role, ids = ""] = trace.split(" ");
        const found = messages.findIndex(
          (message, index) => index >= at && message.startsWith(`${role} `) && message.endsWith(ids),
        );
        if (found < 0) return [`row ${row.seq} is in no message`];
        at = found + 1;
      }
      const stubs = shown.filter(({ calls }) => calls.length > 0).length;
      return messages.length > shown.length + stubs || messages.length < shown.length
        ? [`${messages.length} messages for ${shown.length} rows`]
        : [];
    })(record),
    ...eachCommit(({ change, before, logLength, rows }) => {
      const generation = change.compaction?.generation;
      if (generation === undefined) return [];
      const log = logAt(record, { logLength });
      const lost = rowsIn(log, coveredBy(before)).filter((row) => !contains(generation.covered, row.seq));
      const newly = rowsIn(log, generation.covered).filter((row) => !contains(coveredBy(before), row.seq));
      const unread = newly.filter((row) => !rows.includes(row));
      const { history } = generation;
      const kept = new Set([...record.history.values()].flat());
      const unwritten = history.kind === "file" ? newly.filter((row) => !kept.has(row)) : [];
      return [
        ...lost.map((row) => `row ${row.seq} is not covered any more`),
        ...unread.map((row) => `row ${row.seq} is covered unread`),
        ...unwritten.map((row) => `row ${row.seq} is covered and not in the history file (M1)`),
        // A pass of micro-compaction may write the summary anew, and nothing else (section 11).
        ...(newly.length === 0 && change.trigger !== "micro" ? ["a generation that covers nothing new (C5)"] : []),
        ...(generation.base === (before.generation?.number ?? 0) ? [] : ["a generation that is not based on the last"]),
        ...(generation.pinned !== null && generation.pinned.seq !== openAskOf(log)?.seq
          ? ["a finished request is restated (C4)"]
          : []),
      ];
    })(record),
  ],
};

const oneHandoff: SessionProperty = {
  name: "there is at most one handoff, and it comes first (S4, C7)",
  check: eachSent(({ request, view }) => {
    const at = request.messages.flatMap((message, index) => (message.handoff === true ? [index] : []));
    const expected = view.generation !== null || view.hidden.length > 0 ? [0] : [];
    if (at.join() !== expected.join()) return [`handoffs at ${at.join()}`];
    const marks = request.messages.reduce((sum, message) => sum + occurrences(message.content, END_MARK), 0);
    // A user or a tool may quote the mark; a plan's words never do.
    return marks === expected.length ? [] : [`${marks} end marks`];
  }),
};

const drivenByMore: SessionProperty = {
  name: "a handoff alone never drives a call (R1)",
  check: eachSent(({ request, view }) =>
    view.generation?.pinned == null && request.messages.every((message) => message.handoff === true)
      ? ["nothing but the handoff was sent"]
      : [],
  ),
};

const checksum = (rows: readonly LogRow[]): string =>
  rows.reduce((hash, row) => hash.update(JSON.stringify(row)), createHash("sha256")).digest("hex");

const logUnchanged: SessionProperty = {
  name: "the log is what it was: no row changed, none lost, none new (M6)",
  check: ({ log, appended }) => (checksum(log) === checksum(appended) ? [] : ["the checksum of the log has changed"]),
};

/** The provider's tokens per token of ours, by what was known when the request was decided on; the lower where two things are known. */
const scaleOf = ({ calibration, request, view, estimate }: Sent): number => {
  const { tokens, basis } = project(calibration, { model: request.model, revision: view.revision, estimate });
  const baseline = calibration?.baseline;
  const scale = tokens / Math.max(1, estimate);
  return basis === "reading" || baseline == null ? scale : Math.min(scale, baseline.reading / baseline.estimate);
};

const fits: SessionProperty = {
  name: "a request fits by all that is known of it, or the turn ends with a typed error (E4, E6, ladder step 6)",
  check: (record) => [
    ...eachSent((sent, { budgets, plan, sent: all }) => {
      const { request, estimate } = sent;
      // What the provider stated when it refused the request before is newer than what was learned (section 8).
      const previous = all[all.indexOf(sent) - 1];
      const isStated = previous?.turn === sent.turn && previous.outcome === "overflow";
      const learned = isStated ? Math.min(scaleOf(sent), previous.reading / previous.estimate) : scaleOf(sent);
      // A count of the provider's decides, where there is one (E5).
      const scale = plan.canCount ? Math.min(learned, sent.reading / estimate) : learned;
      const bytes = request.messages.reduce((sum, message) => sum + Buffer.byteLength(message.content), 0);
      return [
        ...(estimate * scale > budgets.hardLimitTokens + 1
          ? [`${Math.round(estimate * scale)} tokens in a window of ${budgets.hardLimitTokens}`]
          : []),
        ...(bytes > plan.maxBytes ? [`${bytes} bytes, more than ${plan.maxBytes}`] : []),
      ];
    })(record),
    ...record.turns.flatMap(({ outcome }, turn) =>
      outcome === "too_large" ? [`turn ${turn} ended by the size of its log, not of its request`] : [],
    ),
  ],
};

/** What a handoff takes more where it says that messages are hidden, and what a summary may add to it. */
const handoffSlack = (windowTokens: number): number => 400 + 0.3 * windowTokens;

const givesUpLate: SessionProperty = {
  name: "a turn gives up only where what must stay does not fit (ladder step 6)",
  check: ({ turns, sent, budgets, plan, renderer }) =>
    turns.flatMap(({ outcome, request, rows, view, calibration, words }, turn) => {
      const isProven = sent.some((each) => each.turn === turn && each.outcome === "overflow");
      if (outcome !== "cannot_fit" || request === null || isProven || plan.maxBytes < 1_000_000) return [];
      const ask = openAskOf(rows);
      // Without an ask the newest batch stays; with one, no more of it than what is in flight.
      const last = rows.at(-1);
      const called = rows.findLastIndex((row) => row.calls.length > 0);
      const newest = last?.origin === "tool" ? rows.slice(called) : rows.slice(-1);
      const kept =
        ask === undefined || (newest[0]?.role === "assistant" && newest.length === 1)
          ? [ask ?? [], newest].flat()
          : [ask];
      const tokens =
        estimateRequest({ ...request, messages: [] }).tokens +
        kept.reduce((sum, row) => sum + renderer.row(row, view).tokens, 0) +
        renderer.measure([], view).tokens;
      const scale =
        calibration === null
          ? 1
          : Math.max(
              1,
              calibration.factor,
              (calibration.baseline?.reading ?? 0) / (calibration.baseline?.estimate ?? 1),
            );
      return (tokens + handoffSlack(plan.windowTokens)) * scale < budgets.hardLimitTokens
        ? [`turn ${turn} gave up with ${tokens} tokens that must stay, in ${budgets.hardLimitTokens}: ${words}`]
        : [];
    }),
};

type Fields = Partial<ViewState>;

/** The view after each of a commit's steps. */
const stepViews = ({ change, before }: Committed): readonly (readonly [string, ViewState])[] => {
  const { view } = change;
  const fieldsOf: Readonly<Record<string, Fields>> = {
    clip: { clippedBefore: view.clippedBefore, clipTokens: view.clipTokens, skills: view.skills },
    summarise: { generation: view.generation },
    demote: { demoted: view.demoted, skills: view.skills },
    truncate: { hidden: view.hidden, skills: view.skills },
  };
  let so: ViewState = { ...before, thinkingFloor: view.thinkingFloor, hidden: before.hidden };
  return change.reason.split("+").map((step) => {
    so = { ...so, ...fieldsOf[step] };
    return [step, so] as const;
  });
};

const reduces: SessionProperty = {
  name: "each step of the ladder makes the request smaller, none runs twice (section 3)",
  check: eachCommit((commit, { renderer, plan }) => {
    const { change, before, rows } = commit;
    const steps = change.reason.split("+");
    if (!["clip", "summarise", "demote", "truncate"].includes(steps[0] ?? "")) return [];
    if (new Set(steps).size !== steps.length) return [`steps ${change.reason}`];
    // Clipping and demoting both decide on skills, and only what both came to is on record.
    if (steps.includes("clip") && steps.includes("demote") && jsonOf(before.skills) !== jsonOf(change.view.skills))
      return [];
    const unloaded = change.view.hidden.filter(({ to }) => to < (rows[0]?.seq ?? 0));
    let last = renderer.measure(rows, { ...before, hidden: [...before.hidden, ...unloaded] });
    return stepViews(commit).flatMap(([step, view]) => {
      const size = renderer.measure(
        rows,
        view.hidden === before.hidden ? { ...view, hidden: [...view.hidden, ...unloaded] } : view,
      );
      const over = last.bytes > plan.maxBytes || last.mediaItems > 100;
      const smaller = size.tokens < last.tokens || (over && size.bytes < last.bytes);
      const words = smaller ? [] : [`step ${step}: ${last.tokens} tokens before, ${size.tokens} after`];
      last = size;
      return words;
    });
  }),
};

const restrained: SessionProperty = {
  name: "a turn compacts by itself once, again only for a reading at the trigger, and waits one answer (M4, G7)",
  check: eachCommit((commit, { commits, budgets }, index) => {
    const receipt = commit.change.compaction?.receipt;
    if (receipt === undefined) return [];
    // Nothing waits for a pass of micro-compaction to be measured (section 11).
    const earlier = commits
      .slice(0, index)
      .filter(({ change }) => change.compaction !== null && change.trigger !== "micro");
    const inTurn = earlier.filter(({ turn }) => turn === commit.turn);
    if (inTurn.length >= 3) return ["a fourth compaction in one turn"];
    if (receipt.reason !== "threshold") return [];
    return [
      ...(inTurn.length > 0 && (commit.reading ?? 0) < budgets.triggerTokens
        ? [`again at a reading of ${commit.reading}, under the trigger of ${budgets.triggerTokens}`]
        : []),
      ...(earlier.length > 0 && earlier.at(-1)?.answered === commit.answered
        ? ["again without an answer between"]
        : []),
    ];
  }),
};

const knownJson = new WeakMap<object, string>();

/** The JSON of an object that does not change, made once. */
const jsonOf = (value: object): string => {
  const known = knownJson.get(value);
  if (known !== undefined) return known;
  const json = JSON.stringify(value);
  knownJson.set(value, json);
  return json;
};

const extended: SessionProperty = {
  name: "a request extends the one before byte for byte, unless a revision was recorded between (V2, V8, section 10)",
  check: eachSent((sent, { sent: all, commits }, index) => {
    const recorded = commits[sent.commits - 1]?.change.view;
    if (recorded !== undefined && jsonOf(recorded) !== jsonOf(sent.view))
      return ["its view is not the one that was recorded"];
    if (recorded === undefined && sent.view.revision !== 0) return ["its revision was never recorded"];
    const last = all[index - 1];
    if (last === undefined || last.commits !== sent.commits) return [];
    const [before, now] = [last.request, sent.request];
    const parts = ({ system, tools }: ModelRequest): string => JSON.stringify([system.map(({ text }) => text), tools]);
    if (parts(before) !== parts(now)) return ["system or tools differ"];
    const differs = before.messages.findIndex(
      ({ role, content }, at) => now.messages[at]?.role !== role || now.messages[at]?.content !== content,
    );
    return differs < 0 ? [] : [`message ${differs} of ${before.messages.length} differs`];
  }),
};

const guarded: SessionProperty = {
  name: "guards know only of compactions that were committed (M2, G1, G3)",
  check: ({ turns, commits }) =>
    turns.flatMap(({ guards, outcome }, turn) => {
      if (outcome === "late" || outcome === "died") return [];
      const newest = commits.findLast((commit) => commit.turn <= turn && commit.change.compaction !== null);
      const number = newest?.change.compaction?.generation.number ?? 0;
      return guards.generation === number ? [] : [`turn ${turn}: generation ${guards.generation}, committed ${number}`];
    }),
};

export const SESSION_PROPERTIES: readonly SessionProperty[] = [
  validates,
  asksOnce,
  coverage,
  oneHandoff,
  drivenByMore,
  logUnchanged,
  fits,
  givesUpLate,
  reduces,
  restrained,
  extended,
  guarded,
  skillsWholeOrMarked,
  skillsNamed,
];
