/** What holds for every pass of micro-compaction (section 11); none asks the code under test whether it did well. */
import { contains } from "../../src/context/view-state.ts";
import type { LogRow } from "../../src/protocol/messages.ts";
import type { Committed, SessionProperty, SessionRecord } from "./session-record.ts";

const isPass = ({ change }: Committed): boolean => change.trigger === "micro";

/** The rows that a pass took out of view. */
const takenBy = ({ change, before }: Committed, log: readonly LogRow[]): readonly LogRow[] =>
  log.filter(
    ({ seq }) =>
      contains(change.view.generation?.covered ?? [], seq) && !contains(before.generation?.covered ?? [], seq),
  );

const eachPass =
  (check: (pass: Committed, record: SessionRecord) => readonly string[]): SessionProperty["check"] =>
  (record) =>
    record.commits
      .filter(isPass)
      .flatMap((pass) => check(pass, record).map((words) => `the pass after turn ${pass.turn}: ${words}`));

const usersStay: SessionProperty = {
  name: "a pass covers no message of a user and no event (section 11)",
  check: eachPass((pass, { log }) =>
    takenBy(pass, log)
      .filter(({ origin }) => origin === "user" || origin === "event")
      .map(({ seq }) => `message ${seq} of a user is gone`),
  ),
};

const oneExchange: SessionProperty = {
  name: "a pass absorbs exactly one exchange, whole batches of it, or nothing (section 11, C2)",
  check: eachPass((pass, { log }) => {
    const taken = takenBy(pass, log);
    const [first, last] = [taken[0], taken.at(-1)];
    if (first === undefined || last === undefined) {
      const sizes = pass.change.sizes;
      return sizes.after < sizes.before ? [] : ["nothing is absorbed, and nothing is shorter"];
    }
    const between = log.filter(({ seq }) => seq >= first.seq && seq <= last.seq);
    const next = log.find(({ seq }) => seq > last.seq);
    return [
      ...(between.length === taken.length ? [] : ["what is absorbed is not in one piece"]),
      ...(taken.some(({ role }) => role === "assistant") ? [] : ["no answer is absorbed"]),
      ...(next?.origin === "tool" ? [`the results of message ${next.seq} are parted from their calls`] : []),
      ...(first.origin === "tool" ? [`the calls before message ${first.seq} are parted from their results`] : []),
    ];
  }),
};

const newestStays: SessionProperty = {
  name: "the newest answer stays as it is (section 11)",
  check: eachPass((pass, { log }) => {
    const newest = log.slice(0, pass.logLength).findLast(({ role }) => role === "assistant");
    return takenBy(pass, log).some(({ seq }) => seq === newest?.seq) ? ["the newest answer is gone"] : [];
  }),
};

/** More than the fixed words of a handoff have, by any tokenizer's scale here. */
const FIXED_WORDS_TOKENS = 1_200;

const saves: SessionProperty = {
  name: "no pass makes the view larger, but for the first by the fixed words of the handoff at most (section 11, S5)",
  check: eachPass(({ change, before, rows }, { renderer }) => {
    const [was, is] = [renderer.measure(rows, before).tokens, renderer.measure(rows, change.view).tokens];
    const most = before.generation === null ? was + FIXED_WORDS_TOKENS : was - 1;
    return is <= most ? [] : [`${was} tokens before, ${is} after`];
  }),
};

const cumulative: SessionProperty = {
  name: "a pass is made from the generation in view, keeps all that it covers, and restates nothing (section 11, V3, C4)",
  check: eachPass(({ change, before }) => {
    const generation = change.compaction?.generation;
    if (generation === undefined) return ["a pass without a generation"];
    const kept = before.generation?.covered.every(({ from, to }) =>
      generation.covered.some((range) => range.from <= from && to <= range.to),
    );
    return [
      ...(generation.base === (before.generation?.number ?? 0) ? [] : [`it is based on ${generation.base}`]),
      ...(kept === false ? ["it covers less than its base"] : []),
      ...(generation.pinned === null ? [] : ["it restates a request of a turn that is over"]),
      ...(change.guards.reading === "awaiting" ? ["compactions at the trigger would wait for it (G7)"] : []),
    ];
  }),
};

/** The model of these sessions whose thinking is valid only behind the bytes that it was written after. */
const BINDS_THINKING = "claude-sonnet-5-5";

const dropsThinking: SessionProperty = {
  name: "a pass shows no thinking from before it where that is bound to other bytes (V5)",
  check: eachPass(({ change, rows }, { plan }) => {
    const last = rows.at(-1)?.seq ?? 0;
    return plan.model !== BINDS_THINKING || change.view.thinkingFloor > last
      ? []
      : [`thinking from ${change.view.thinkingFloor} on is shown, and the log ends at ${last}`];
  }),
};

const neverStalls: SessionProperty = {
  name: "no exchange is tried again after it failed three times, until a compaction of another kind (section 11)",
  check: ({ passes, commits }) => {
    let floor = 0;
    let since = 0;
    return passes.flatMap(({ outcome, turn, isLate }) => {
      const others = commits.filter(
        (commit) => commit.turn <= turn && commit.change.compaction !== null && !isPass(commit),
      );
      if (others.length > since) floor = 0;
      since = others.length;
      if (isLate || !("state" in outcome)) return [];
      const { failing, floor: passed } = outcome.state;
      const words = [
        ...(passed < floor ? [`after turn ${turn}: what was passed over is forgotten`] : []),
        ...(failing !== null && failing.seq > 0 && failing.seq < floor
          ? [`after turn ${turn}: ${failing.seq} again`]
          : []),
        ...((failing?.failures ?? 0) > 2 ? [`after turn ${turn}: a fourth try`] : []),
      ];
      floor = Math.max(floor, passed);
      return words;
    });
  },
};

export const MICRO_PROPERTIES: readonly SessionProperty[] = [
  usersStay,
  oneExchange,
  newestStays,
  saves,
  cumulative,
  dropsThinking,
  neverStalls,
];
