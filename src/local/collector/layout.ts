/** The frame of the local pages: head, style and navigation. Without a script; everything that is put in is escaped. */
import { html, raw } from "hono/html";

export const STYLE = `
:root {
  color-scheme: light dark;
  --line: color-mix(in srgb, currentColor 18%, transparent);
  --soft: color-mix(in srgb, currentColor 6%, transparent);
  --quiet: color-mix(in srgb, currentColor 62%, transparent);
  --server: light-dark(#6b7280, #9ca3af);
  --agent: light-dark(#2563eb, #60a5fa);
  --chat: light-dark(#0d9488, #2dd4bf);
  --summarizer: light-dark(#c026d3, #e879f9);
  --tool: light-dark(#ca8a04, #facc15);
  --client: light-dark(#94a3b8, #64748b);
  --other: light-dark(#94a3b8, #64748b);
  --error: light-dark(#dc2626, #f87171);
}
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; padding: 1.5rem; }
a { color: inherit; }
code, pre, .mono { font-family: ui-monospace, monospace; font-size: 0.9em; }
code { overflow-wrap: anywhere; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; margin: 0.5rem 0; overflow-x: auto; padding: 0.75rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 0.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 1.75rem 0 0.5rem; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); }
.small { font-size: 0.875rem; }
.site { align-items: baseline; border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding-bottom: 0.75rem; }
.site strong { margin-right: auto; }
.site [aria-current] { font-weight: 600; text-decoration-thickness: 2px; }
.filters { display: flex; flex-wrap: wrap; gap: 0.5rem; list-style: none; margin: 1rem 0; padding: 0; }
.filters a { border: 1px solid var(--line); border-radius: 999px; display: block; padding: 0.15rem 0.8rem; text-decoration: none; }
.filters [aria-current] { background: currentColor; }
.filters [aria-current] span { color: light-dark(#fff, #111); }
.badge { border: 1px solid currentColor; border-radius: 999px; display: inline-block; font-size: 0.8rem; line-height: 1.3; padding: 0.05rem 0.55rem; white-space: nowrap; }
.badge.compacted { color: var(--summarizer); }
.badge.error { background: var(--error); border-color: var(--error); color: light-dark(#fff, #111); }
.traces { list-style: none; margin: 0; padding: 0; }
.traces li { border-top: 1px solid var(--line); }
.traces li:last-child { border-bottom: 1px solid var(--line); }
.traces a { align-items: baseline; column-gap: 1rem; display: grid; grid-template-columns: 9.5rem minmax(0, 1fr) 5.5rem 5.5rem; padding: 0.55rem 0.5rem; text-decoration: none; }
.traces a:hover, .traces a:focus-visible, .span > summary:hover { background: var(--soft); }
.traces .what { overflow-wrap: anywhere; }
.traces .name { font-weight: 600; margin-right: 0.4rem; }
.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
time { font-variant-numeric: tabular-nums; white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; margin: 0.25rem 0 1rem; padding: 0; }
.facts div { display: flex; gap: 0.4rem; }
.facts dt { color: var(--quiet); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.compaction { border: 1px solid var(--summarizer); border-left-width: 5px; border-radius: 6px; margin: 0.75rem 0; padding: 0.6rem 0.9rem; }
.compaction p { margin: 0; }
.compaction .facts { margin-bottom: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.1rem; list-style: none; margin: 0.75rem 0; padding: 0; }
.legend svg { height: 0.8rem; margin-right: 0.35rem; vertical-align: -0.05rem; width: 0.8rem; }
.scale, .span > summary { column-gap: 0.75rem; display: grid; grid-template-columns: minmax(15rem, 2.6fr) minmax(0, 3fr) 5.5rem; }
.scale { color: var(--quiet); font-size: 0.8rem; padding: 0 0.4rem; }
.scale div { display: flex; justify-content: space-between; }
.span { border-top: 1px solid var(--line); }
.span:last-child { border-bottom: 1px solid var(--line); }
.span > summary { align-items: center; cursor: pointer; list-style: none; padding: 0.3rem 0.4rem; }
.span > summary::-webkit-details-marker { display: none; }
.span > summary .name { align-items: baseline; display: flex; flex-wrap: wrap; gap: 0 0.4rem; overflow-wrap: anywhere; }
.span > summary .name > .badge:last-child { margin-right: 0.4rem; }
.span > summary .name::before { color: var(--quiet); content: "▸"; flex: none; font-size: 0.8em; width: 0.8em; }
.span[open] > summary .name::before { content: "▾"; }
.span[open] > summary { background: var(--soft); }
.bar { background: linear-gradient(var(--line), var(--line)) center / 100% 1px no-repeat; height: 1.25rem; overflow: visible; width: 100%; }
.details { padding: 0.25rem 0.4rem 1rem 1.6rem; }
.details h3 { font-size: 0.95rem; margin: 0.9rem 0 0.25rem; }
.server { fill: var(--server); } .agent { fill: var(--agent); } .chat { fill: var(--chat); } .summarizer { fill: var(--summarizer); }
.tool { fill: var(--tool); } .client { fill: var(--client); } .other { fill: var(--other); }
rect.failed { fill: var(--error); }
.mark { fill: Canvas; stroke: currentColor; stroke-width: 2; }
.mark.compacted { fill: var(--summarizer); stroke: Canvas; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.75rem 0.3rem 0; text-align: left; vertical-align: top; }
th { font-size: 0.875rem; font-weight: 600; }
th.number, td.number { text-align: right; }
td { overflow-wrap: anywhere; }
.pairs th { color: var(--quiet); font-weight: 400; overflow-wrap: anywhere; width: 38%; }
.pairs td { white-space: pre-wrap; }
.attributes { display: flex; flex-wrap: wrap; gap: 0.1rem 0.9rem; }
.metric { table-layout: fixed; }
.metric th.number { width: 7.5rem; }
.metric td.number { font-size: 0.9rem; }
.metric th:last-child:not(.number) { width: 8rem; }
.shape { height: 1.4rem; vertical-align: middle; width: 7rem; }
.shape rect { fill: var(--agent); }
.empty { background: var(--soft); border-radius: 6px; margin: 1.5rem 0; padding: 1rem 1.25rem; }
footer { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 0.75rem; }
.d1 { padding-left: 1rem; } .d2 { padding-left: 2rem; } .d3 { padding-left: 3rem; } .d4 { padding-left: 4rem; } .d5 { padding-left: 5rem; } .d6 { padding-left: 6rem; }
@media (max-width: 46rem) {
  body { padding: 1rem; }
  .site strong { flex-basis: 100%; }
  .traces a { grid-template-columns: minmax(0, 1fr) auto auto; }
  .traces .what { grid-column: 1 / -1; grid-row: 1; }
  .scale, .span > summary { grid-template-columns: minmax(0, 1fr) auto; }
  .scale span { display: none; }
  .scale div, .span > summary .bar { grid-column: 1 / -1; }
  .span > summary .bar { grid-row: 2; }
  .details { padding-left: 0.4rem; }
  .d1 { padding-left: 0.6rem; } .d2 { padding-left: 1.2rem; } .d3 { padding-left: 1.8rem; } .d4 { padding-left: 2.4rem; } .d5, .d6 { padding-left: 3rem; }
  .metric thead { display: none; }
  .metric tr { border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 1rem; padding: 0.4rem 0; }
  .metric td { border: 0; padding: 0; }
  .metric td:first-child { flex-basis: 100%; }
  .metric td[data-label]::before { color: var(--quiet); content: attr(data-label) " "; }
  .pairs tr { display: block; border-bottom: 1px solid var(--line); padding: 0.3rem 0; }
  .pairs th, .pairs td { border: 0; display: block; padding: 0; width: auto; }
}
`;

export type Part = ReturnType<typeof html>;

export interface Frame {
  readonly title: string;
  readonly current: "traces" | "metrics" | undefined;
  readonly main: Part;
}

const PAGES = [
  ["traces", "/_local/traces", "Traces"],
  ["metrics", "/_local/metrics", "Metrics"],
] as const;

/** Where its value is true, marks a link as that of the page itself. */
export const currentMark = (isCurrent: boolean) => (isCurrent ? raw(' aria-current="page"') : "");

/** A whole page. */
export const renderFrame = async ({ title, current, main }: Frame): Promise<string> =>
  String(
    await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} - hango</title>
<link rel="icon" href="data:,">
<style>${raw(STYLE)}</style>
</head>
<body>
<nav class="site" aria-label="Pages">
<strong>hango on this machine</strong>
${PAGES.map(([id, path, name]) => html`<a href="${path}"${currentMark(id === current)}>${name}</a>`)}
<a href="/docs">API documentation</a>
</nav>
<main>
${main}
</main>
<footer class="quiet small">
<p>The last traces and the metrics since the start, kept in memory until hango is stopped. What is said in sessions is not in them unless
<code>HANGO_CAPTURE_CONTENT=true</code>. Set <code>OTEL_EXPORTER_OTLP_ENDPOINT</code> to send both to a collector of your own instead.</p>
</footer>
</body>
</html>`,
  );
