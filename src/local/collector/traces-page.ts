/** `/_local/traces`: the last traces, newest first. */
import { html } from "hono/html";
import { currentMark, type Part } from "./layout.ts";
import { clockTime, counted, duration } from "./readable.ts";
import type { Compaction, TraceSummary } from "./summary.ts";

/** More rows than this nobody reads; the rest is in `traces.json`. */
const MAX_ROWS = 200;

/** The filters of the list: what `?show=` may be, its words, and what it lets through. */
const FILTERS = [
  ["all", "All", () => true],
  ["turns", "Turns", ({ conversationId }: TraceSummary) => conversationId !== undefined],
  ["compacted", "Compacted", ({ compactions }: TraceSummary) => compactions.length > 0],
  ["errors", "Errors", ({ errorCount }: TraceSummary) => errorCount > 0],
] as const;

export type Filter = (typeof FILTERS)[number][0];

/** The filter that a query asks for; all, if it is none that there is. */
export const filterOf = (asked: string | null): Filter => FILTERS.find(([id]) => id === asked)?.[0] ?? "all";

/** How a compaction changed the size of the context, in words. */
export const sizeWords = ({ tokensBefore, tokensAfter }: Compaction): string =>
  tokensBefore === undefined || tokensAfter === undefined
    ? "unknown sizes"
    : `${tokensBefore.toLocaleString("en-US")} → ${tokensAfter.toLocaleString("en-US")} tokens`;

const workWords = ({ modelCalls, summaryCalls, toolCalls }: TraceSummary): string =>
  [
    ...(modelCalls === 0 ? [] : [counted(modelCalls, "model call")]),
    ...(summaryCalls === 0 ? [] : [`${counted(summaryCalls, "call")} of the summariser`]),
    ...(toolCalls === 0 ? [] : [counted(toolCalls, "tool call")]),
  ].join(", ");

const statusBadge = ({ errorCount, httpStatus }: TraceSummary) => {
  if (errorCount > 0)
    return html` <span class="badge error">${httpStatus ?? ""} ${counted(errorCount, "error")}</span>`;
  return httpStatus === undefined ? "" : html` <span class="badge">${httpStatus}</span>`;
};

const row = (summary: TraceSummary, timeZone: string) => html`<li><a href="/_local/traces/${summary.traceId}">
<time class="small quiet" datetime="${new Date(summary.startMs).toISOString()}">${clockTime(summary.startMs, timeZone)}</time>
<span class="what"><span class="name">${summary.name}</span>${statusBadge(summary)}
${summary.compactions.map((compaction) => html`<span class="badge compacted">compacted ${sizeWords(compaction)}</span> `)}
${summary.conversationId === undefined ? "" : html`<br><span class="small quiet"><span class="mono">${summary.conversationId}</span> · ${workWords(summary)}</span>`}</span>
<span class="number small quiet">${counted(summary.spanCount, "span")}</span>
<span class="number">${duration(summary.durationMs)}</span>
</a></li>`;

const noTurnYet = (exampleCommand: string): Part => html`<div class="empty">
<p>No turn was traced yet. Run one, and look again:</p>
<pre>${exampleCommand}</pre>
<p class="small quiet">The key is the one that <code>npm start</code> printed. A trace is here once its request has ended.</p>
</div>`;

export interface TracesInput {
  readonly summaries: readonly TraceSummary[];
  readonly filter: Filter;
  readonly timeZone: string;
  /** What to run where there is no turn to see. */
  readonly exampleCommand: string;
}

export const renderTraces = ({ summaries, filter, timeZone, exampleCommand }: TracesInput): Part => {
  const [, , lets] = FILTERS.find(([id]) => id === filter) ?? FILTERS[0];
  const shown = summaries.filter(lets);
  const more = shown.length - MAX_ROWS;
  const list =
    shown.length === 0
      ? html`<p class="empty">None of them is of this kind.</p>`
      : html`<ol class="traces">${shown.slice(0, MAX_ROWS).map((summary) => row(summary, timeZone))}</ol>`;
  // The first start makes a tenant and a key: traces, and yet nothing that anybody came to see.
  const hint = summaries.some(({ conversationId }) => conversationId !== undefined) ? "" : noTurnYet(exampleCommand);
  return html`<h1>Traces</h1>
<p class="quiet small">Newest first; times are of ${timeZone}. <a href="/_local/traces${filter === "all" ? "" : `?show=${filter}`}">Look again</a> for newer ones. The same as data: <a href="/_local/traces.json">traces.json</a>.</p>
${hint}
${
  summaries.length === 0
    ? ""
    : html`<ul class="filters">${FILTERS.map(
        ([id, words, passes]) =>
          html`<li><a href="/_local/traces${id === "all" ? "" : `?show=${id}`}"${currentMark(id === filter)}><span>${words} ${summaries.filter(passes).length}</span></a></li>`,
      )}</ul>${list}`
}
${more > 0 ? html`<p class="quiet">and ${counted(more, "older one")}</p>` : ""}`;
};
