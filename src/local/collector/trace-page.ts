/** `/_local/traces/{traceId}`: one trace as a waterfall. Bars are SVG, whose positions a strict policy allows where it forbids styles. */
import { html } from "hono/html";
import { genai } from "../../telemetry/genai.ts";
import type { Part } from "./layout.ts";
import type { Attributes, SpanEvent, Value } from "./otlp.ts";
import { clockTime, counted, duration } from "./readable.ts";
import type { Trace } from "./span-store.ts";
import { type Compaction, compactionOf, isCompaction, type Role, roleOf, summarise } from "./summary.ts";
import { sizeWords } from "./traces-page.ts";
import { layOut, type Row, type Waterfall } from "./waterfall.ts";

/** Deeper rows are not moved further in. */
const MAX_INDENT = 6;

/** Longer values are cut on the page; `traces/{traceId}.json` has them whole. */
const MAX_VALUE_CHARS = 4_000;

const ROLE_WORDS: Readonly<Record<Role, string>> = {
  server: "request or message that came in",
  agent: "turn",
  chat: "model call",
  summarizer: "model call of the summariser",
  tool: "tool call",
  client: "call of a database, bucket or other server",
  other: "inside hango",
};

const valueWords = (value: Value): string => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= MAX_VALUE_CHARS
    ? text
    : `${text.slice(0, MAX_VALUE_CHARS)}… (${(text.length - MAX_VALUE_CHARS).toLocaleString("en-US")} more characters)`;
};

const pairs = (attributes: Attributes) => {
  const entries = Object.entries(attributes).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.length === 0
    ? html`<p class="quiet small">No attributes.</p>`
    : html`<table class="pairs small">${entries.map(
        ([name, value]) =>
          html`<tr><th scope="row"><code>${name}</code></th><td class="mono">${valueWords(value)}</td></tr>`,
      )}</table>`;
};

const eventDetails = (event: SpanEvent, startMs: number) => html`<h3>Event <code>${event.name}</code>
<span class="quiet">at ${duration(Math.max(0, event.atMs - startMs))}</span>
${isCompaction(event) ? html`<span class="badge compacted">compacted ${sizeWords(compactionOf(event))}</span>` : ""}</h3>
${pairs(event.attributes)}`;

const badges = ({ span }: Row) => [
  span.isError ? html`<span class="badge error">error</span>` : "",
  roleOf(span) === "summarizer" ? html`<span class="badge compacted">summariser</span>` : "",
  ...span.events
    .filter(isCompaction)
    .map((event) => html`<span class="badge compacted">compacted ${sizeWords(compactionOf(event))}</span>`),
  span.attributes[genai.compacted] === true
    ? html`<span class="badge compacted">sees the compacted context</span>`
    : "",
];

const bar = ({ span, offsetPercent, widthPercent, marks }: Row) => html`<svg class="bar" aria-hidden="true">
<rect class="${roleOf(span)}${span.isError ? " failed" : ""}" x="${offsetPercent.toFixed(2)}%" width="${widthPercent.toFixed(2)}%" y="15%" height="70%" rx="2"></rect>
${marks.map(
  ({ name, atPercent }) =>
    html`<circle class="mark${name === genai.compacted ? " compacted" : ""}" cx="${atPercent.toFixed(2)}%" cy="50%" r="${name === genai.compacted ? 6 : 4}"><title>${name}</title></circle>`,
)}
</svg>`;

const spanRow = (row: Row, startMs: number) => {
  const { span, depth, durationMs } = row;
  return html`<details class="span" id="span-${span.spanId}">
<summary><span class="name d${Math.min(depth, MAX_INDENT)}"><span>${span.name}</span> ${badges(row)}</span>${bar(row)}<span class="number small">${duration(durationMs)}</span></summary>
<div class="details">
${span.isError ? html`<p><span class="badge error">error</span> ${span.statusMessage || "without a message"}</p>` : ""}
<dl class="facts small">
<div><dt>kind</dt><dd>${span.kind}</dd></div>
<div><dt>begins at</dt><dd>${duration(Math.max(0, span.startMs - startMs))}</dd></div>
<div><dt>takes</dt><dd>${duration(durationMs)}</dd></div>
<div><dt>span</dt><dd class="mono">${span.spanId}</dd></div>
${span.parentSpanId === undefined ? "" : html`<div><dt>parent</dt><dd class="mono">${span.parentSpanId}</dd></div>`}
</dl>
${pairs(span.attributes)}
${span.events.map((event) => eventDetails(event, startMs))}
</div>
</details>`;
};

const fact = (name: string, value: string | number | undefined) =>
  value === undefined ? "" : html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

const compactionPanel = (
  compaction: Compaction,
  summaryCalls: number,
  summaryMs: number,
) => html`<section class="compaction">
<p><strong>The context was compacted: ${sizeWords(compaction)}</strong></p>
<dl class="facts small">
${fact("messages evicted", compaction.messagesEvicted)}
${fact("reason", compaction.reason)}
${fact("outcome", compaction.outcome)}
${fact("generation", compaction.generation)}
${summaryCalls === 0 ? "" : fact("summariser", `${counted(summaryCalls, "call")}, ${duration(summaryMs)}`)}
${fact("history", compaction.path)}
</dl>
</section>`;

const legend = ({ rows }: Waterfall) => {
  const there = new Set(rows.map(({ span }) => roleOf(span)));
  const roles = (Object.keys(ROLE_WORDS) as readonly Role[]).filter((role) => there.has(role));
  return html`<ul class="legend small quiet">
${roles.map((role) => html`<li><svg aria-hidden="true"><rect class="${role}" width="100%" height="100%" rx="2"></rect></svg>${ROLE_WORDS[role]}</li>`)}
</ul>`;
};

const ticks = (durationMs: number) =>
  [0, 0.25, 0.5, 0.75, 1].map((share) => html`<span class="tick">${duration(durationMs * share)}</span>`);

export const renderTrace = (trace: Trace, timeZone: string): Part => {
  const waterfall = layOut(trace.spans);
  const summary = summarise(trace);
  const { startMs, durationMs, rows } = waterfall;
  const summaryMs = rows
    .filter(({ span }) => roleOf(span) === "summarizer")
    .reduce((sum, row) => sum + row.durationMs, 0);
  return html`<p class="small"><a href="/_local/traces">All traces</a></p>
<h1>${summary.name}</h1>
<dl class="facts small">
<div><dt>began</dt><dd><time datetime="${new Date(startMs).toISOString()}">${clockTime(startMs, timeZone)}</time></dd></div>
${fact("took", duration(durationMs))}
${fact("spans", summary.spanCount)}
${fact("errors", summary.errorCount === 0 ? undefined : summary.errorCount)}
${fact("session", summary.conversationId)}
<div><dt>trace</dt><dd class="mono"><a href="/_local/traces/${trace.traceId}.json">${trace.traceId}</a></dd></div>
</dl>
${trace.forgotten === 0 ? "" : html`<p class="empty">It has ${counted(trace.forgotten, "further span")}, which did not fit into memory.</p>`}
${summary.compactions.map((compaction) => compactionPanel(compaction, summary.summaryCalls, summaryMs))}
${legend(waterfall)}
<div class="scale"><span>A click opens a span</span><div>${ticks(durationMs)}</div></div>
<div class="waterfall">
${rows.map((row) => spanRow(row, startMs))}
</div>`;
};
