/** What must hold of a session after a pass, once nothing of it is unfinished. */

import { checkErrors } from "./error-checks.ts";
import { checkGuards, checkNamed } from "./guard-checks.ts";
import type { Usage } from "./provider.ts";
import type { Passed, Shape } from "./under-test.ts";

/** M6, M7: rows stay as they are, and every number is taken once. */
const checkLog = (shape: Shape, { before, state }: Passed): void => {
  const known = new Map(before.rows);
  const now = new Map(state.rows);
  for (const [seq, hash] of known) if (now.get(seq) !== hash) shape.violate("M6", `row ${seq} is not what it was`);
  // A batch of which nothing is known is left to the next run, which closes it before anything else.
  const open = state.openBatch;
  // The number after it is kept for its results: what was brought meanwhile stands behind that.
  let wanted = 1;
  for (const [seq] of state.rows) {
    if (open !== null && wanted === open + 1 && seq !== wanted) wanted += 1;
    if (seq !== wanted) shape.violate("M6", `where row ${wanted} of the log should be is row ${seq}`);
    wanted = seq + 1;
  }
  const last = state.runs.findLast(({ trigger }) => trigger !== "maintenance");
  if (
    open !== null &&
    (last?.status === "completed" || open === before.openBatch) &&
    last?.id !== before.runs.findLast(({ trigger }) => trigger !== "maintenance")?.id
  )
    shape.violate("M7", `the batch of row ${open} is open after a run that was ${last?.status}`);
  const next = state.rows.length + (open === null ? 1 : 2);
  if (state.nextSeq !== next) shape.violate("M6", `the next row would be ${state.nextSeq}, not ${next}`);
};

/** Every request that was taken is a run that ended, and a row; each key has one run. */
const checkRuns = (shape: Shape, { state, facts, before }: Passed): void => {
  const keys = state.runs.flatMap(({ key }) => (key === null ? [] : [key]));
  if (new Set(keys).size !== keys.length) shape.violate("one run a key", "two runs have one idempotency key");
  for (const run of state.runs) {
    if (!["completed", "failed", "cancelled"].includes(run.status)) continue;
    const wanted = run.trigger === "maintenance" || run.inputSeq === null ? [0, 1] : [1];
    if (!wanted.includes(run.ends))
      shape.violate("one end a run", `run ${run.id} (${run.status}) has ${run.ends} ends`);
  }
  for (const { ask, answer } of facts.answered) {
    const isRun = answer.kind === "ran" || answer.kind === "lost" || answer.kind === "queued";
    if (isRun && !keys.includes(ask.key)) shape.violate("progress", `the run of ${ask.key} is gone`);
  }
  if (state.inputs > 0) shape.violate("M5", `${state.inputs} inputs are left outside of the log`);
  const known = new Set(before.runs.map(({ id }) => id));
  for (const run of state.runs)
    if (!known.has(run.id))
      shape.tally.add(run.trigger === "maintenance" ? "maintenance runs" : "turns", run.code ?? run.status);
};

/** M5: what was asked stands in the log once, where it was taken; at most once, where its Worker died before it could say. */
const checkInputs = async (shape: Shape, { facts, pass }: Passed): Promise<void> => {
  // A retry puts the same words into the log again.
  if (facts.asks.length === 0 || pass.event.kind === "retry") return;
  const rows = await shape.lane.sql(
    "select content::text as content from messages where session_id = $1 and origin = 'user' order by seq desc limit 40",
    [shape.session.id],
  );
  for (const ask of facts.asks) {
    const found = rows.filter(({ content }) => String(content).includes(ask.mark)).length;
    const answer = facts.answered.find((one) => one.ask === ask || one.ask.key === ask.key)?.answer;
    const taken = answer !== undefined && ["ran", "lost", "joined"].includes(answer.kind);
    if (found > 1 || (taken && found !== 1))
      shape.violate("M5", `${ask.mark}, ${answer?.kind ?? "whose Worker is gone"}, stands in the log ${found} times`);
  }
};

const keyOf = (purpose: string, model: string, tokens: readonly number[]): string =>
  `${purpose} ${model} ${tokens.join("/")}`;
const tokensOf = ({ input, output, cacheRead, cacheWrite }: Usage): readonly number[] => [
  input,
  output,
  cacheRead,
  cacheWrite,
];

const sumOf = (rows: readonly { readonly tokens: readonly number[] }[]): readonly number[] =>
  [0, 1, 2, 3].map((column) => rows.reduce((sum, { tokens }) => sum + (tokens[column] ?? 0), 0));

const equal = (a: readonly number[], b: readonly number[]): boolean => a.every((value, at) => value === b[at]);

/** Every answer is billed once; where its Worker was gone before it could store it, at most once. Sums agree, and the counters count. */
const checkBills = (shape: Shape, { before, state, calls, facts }: Passed): void => {
  const lost = new Set(
    facts.workers.filter((worker) => worker.isGone() || facts.late.has(worker.name)).map(({ name }) => name),
  );
  const left = new Map<string, { must: number; may: number }>();
  for (const call of calls) {
    if (call.usage === null || (call.purpose !== "turn" && call.purpose !== "summarize")) continue;
    const key = keyOf(call.purpose, call.model, tokensOf(call.usage));
    const counts = left.get(key) ?? { must: 0, may: 0 };
    const certain = !facts.cancelled && !facts.disturbed && !lost.has(call.worker);
    counts.may += 1;
    if (certain) counts.must += 1;
    left.set(key, counts);
  }
  for (const { purpose, model, tokens } of state.usage.slice(before.usage.length)) {
    const counts = left.get(keyOf(purpose, model, tokens));
    if (counts === undefined || counts.may === 0)
      shape.violate("bills", `${purpose} ${tokens} was not answered, or twice billed`);
    else {
      counts.may -= 1;
      counts.must -= 1;
    }
  }
  for (const [key, { must }] of left) if (must > 0) shape.violate("bills", `${key} was answered and not billed`);
  for (const run of state.runs) {
    const own = sumOf(state.usage.filter((row) => row.run === run.id));
    if (!equal(own, run.tokens))
      shape.violate("bills", `run ${run.id} (${run.trigger}, ${run.status}) counts ${run.tokens}, its records ${own}`);
  }
  const all = sumOf(state.usage);
  if (!equal(all, state.tokens)) shape.violate("bills", `the session counts ${state.tokens}, its records ${all}`);
  if (state.compactions !== state.generations.length)
    shape.violate("counters", `the session counts ${state.compactions} compactions of ${state.generations.length}`);
};

/** The provider's words for thinking that it does not take back. */
const SIGNATURE = /Invalid `signature` in `thinking` block/;

/**
 * The provider refused nothing but what was too long; and, once after the model was changed, the thinking of the one before (V5). A count does not say whose
 * thinking it holds, and may be refused for it: the estimate decides then (E5).
 */
const checkValid = (shape: Shape, { calls, facts, before, state }: Passed): void => {
  for (const { purpose, behaviour, error } of calls) {
    if (purpose === "uncounted")
      shape.tally.add("counts", `refused: ${SIGNATURE.test(error ?? "") ? "signature" : behaviour}`);
    if (purpose === "count") shape.tally.add("counts", "answered");
    if (purpose !== "unread" || behaviour === "overflow") continue;
    if (SIGNATURE.test(error ?? "") && facts.modelChanged) {
      shape.tally.add("model calls", "refused: thinking of another model");
      // A cancel may come before what was found out is stored.
      facts.modelChanged = state.head.thinking_floor === before.head.thinking_floor;
    } else shape.violate("C7", `the provider refused a request: ${error}`);
  }
};

/** What the Workers' logs say of compaction, counted. */
const tallyFacts = (shape: Shape, { calls, facts }: Passed): void => {
  const { tally } = shape;
  for (const { purpose, behaviour } of calls) {
    if (purpose === "summarize") tally.add("summaries", behaviour);
    if (purpose === "turn") tally.add("model calls", behaviour);
    if (purpose === "unread") tally.add("model calls", "too long");
  }
  for (const fact of facts.workers.flatMap((worker) => worker.facts)) {
    if (fact.msg === "the context was compacted") {
      tally.add("compactions", `${fact.reason}: ${fact.steps}`);
    } else if (fact.msg === "the context was not compacted") {
      if (fact.why === "guard") tally.add("blocked by", String(fact.guard));
      else tally.add("not compacted", `${fact.reason}: ${fact.failure ?? fact.why}`);
    } else if (fact.msg === "the view breaks a rule of the provider") {
      shape.violate("C7", `our own validator: ${fact.problems}`);
    }
  }
};

/** All of it. */
export const checkPass = async (shape: Shape, passed: Passed): Promise<void> => {
  shape.tally.add("passes", "done");
  tallyFacts(shape, passed);
  checkLog(shape, passed);
  checkRuns(shape, passed);
  await checkInputs(shape, passed);
  checkBills(shape, passed);
  checkValid(shape, passed);
  checkErrors(shape, passed);
  checkGuards(shape, passed);
  await checkNamed(shape, passed);
};
