/** The summariser calls of micro-compaction (section 11): an exchange merged into the rolling summary, and that summary written anew. */
import type { Usage } from "../protocol/messages.ts";
import { acceptAnswer, type SummarySize } from "./acceptance.ts";
import { stripHandoff } from "./handoff.ts";
import type { Exchange } from "./micro-plan.ts";
import type { SummariserPort, SummaryFailure } from "./ports.ts";
import { rowsForSummary } from "./skills.ts";
import { summarise } from "./summarise.ts";
import { defragPrompt } from "./summary-prompt.ts";

/** What an exchange may add to the summary: as a full compaction's share of what it covers (S5), and never less than a few sentences. */
const TARGET_FRACTION = 0.2;
const SMALLEST_TARGET_TOKENS = 128;
/** S5: no summary is to be longer, whatever it stands for; of a small window, 5 %. */
const LARGEST_TARGET_TOKENS = 10_000;
const WINDOW_FRACTION = 0.05;
const CEILING_FACTOR = 4;

const sized = (wantedTokens: number, windowTokens: number): SummarySize => {
  const most = Math.min(LARGEST_TARGET_TOKENS, WINDOW_FRACTION * windowTokens);
  const targetTokens = Math.max(1, Math.floor(Math.min(wantedTokens, most)));
  return { targetTokens, ceilingTokens: CEILING_FACTOR * targetTokens };
};

export interface MicroSummaryPorts {
  readonly summariser: SummariserPort;
  readonly estimateTokens: (text: string) => number;
  /** Replaces secrets (S6). */
  readonly redact: (text: string) => string;
}

export type MicroSummary =
  | { readonly kind: "summary"; readonly text: string; readonly model: string; readonly usage: Usage }
  | { readonly kind: "failed"; readonly failure: SummaryFailure; readonly reason: string };

/**
 * The rolling summary with one exchange more: one text that replaces the base's, which goes in whole (S1). What the exchange answers goes
 * in too, so that the answer can be understood; it stays in view.
 * @param base the summary so far; "" for none
 */
export const summariseExchange = async (
  exchange: Exchange,
  base: string,
  windowTokens: number,
  ports: MicroSummaryPorts,
): Promise<MicroSummary> => {
  const rows = rowsForSummary([...exchange.asks, ...exchange.rows]);
  const added = Math.max(SMALLEST_TARGET_TOKENS, TARGET_FRACTION * exchange.tokens);
  return summarise({
    rows,
    base: { summary: base },
    pinned: null,
    focus: null,
    size: sized(ports.estimateTokens(base) + added, windowTokens),
    port: ports.summariser,
    redact: ports.redact,
    estimateTokens: ports.estimateTokens,
  });
};

/** The rolling summary alone, written anew (section 11). @param targetTokens size to aim at */
export const defragSummary = async (
  base: string,
  asOf: number,
  { targetTokens, windowTokens }: { readonly targetTokens: number; readonly windowTokens: number },
  { summariser, estimateTokens, redact }: MicroSummaryPorts,
): Promise<MicroSummary> => {
  const size = sized(targetTokens, windowTokens);
  const maxTokens = size.ceilingTokens;
  try {
    const prompt = defragPrompt({ previous: redact(base), asOf, targetTokens: size.targetTokens });
    const answer = await summariser.call({ ...prompt, maxTokens });
    const text = redact(stripHandoff(answer.text)).toWellFormed();
    const accepted = acceptAnswer({
      text,
      stopReason: answer.stopReason,
      ceilingTokens: size.ceilingTokens,
      estimateTokens,
    });
    if (accepted.kind === "rejected") return { kind: "failed", failure: accepted.failure, reason: accepted.reason };
    return { kind: "summary", text, model: answer.model, usage: answer.usage };
  } catch (error) {
    const failure = summariser.failureOf(error);
    if (failure === null) throw error;
    return { kind: "failed", failure, reason: "the call failed" };
  }
};
