/** What the dashboard shows. Every metric and label that stands here is held to what a Worker really exports, by `test/slow/dashboard.test.ts`. */
import { genai, hango } from "../../telemetry/genai.ts";
import type { Row, Target } from "./grafana.ts";

/** The series that names the deployments to choose from: each has turns. */
export const JOB_METRIC = "hango_turn_duration_seconds_count";

const select = (series: string, matchers = ""): string =>
  `${series}{job=~"$job"${matchers === "" ? "" : `,${matchers}`}}`;

/** Per second, summed over isolates. */
const rate = (series: string, by = "", matchers = ""): string =>
  `sum${by === "" ? "" : ` by (${by})`} (rate(${select(series, matchers)}[$__rate_interval]))`;

/**
 * How much was counted in a span of time, the first value of a new series included, which `increase` does not see: an isolate that has counted one
 * dead letter in its life shows a series that begins at 1, and is gone soon after.
 */
const counted = (series: string, span: string, by = "", matchers = ""): string => {
  const selected = select(series, matchers);
  const grouped = by === "" ? "" : ` by (${by})`;
  return `sum${grouped} ((max_over_time(${selected}[${span}]) unless ${selected} offset ${span}) or increase(${selected}[${span}]))`;
};

/** 0 where nothing was counted at all, so that a number stands there. */
const countedOrNone = (series: string, matchers = ""): string =>
  `(${counted(series, "$__range", "", matchers)}) or vector(0)`;

const quantile = (share: number, family: string, by = ""): string =>
  `histogram_quantile(${share}, ${rate(`${family}_bucket`, by === "" ? "le" : `le, ${by}`)})`;

/** Median and 95th percentile. @param name what comes before them in the legend */
const p50p95 = (family: string, by = "", name = ""): readonly Target[] => [
  { expr: quantile(0.5, family, by), legend: `${name}p50` },
  { expr: quantile(0.95, family, by), legend: `${name}p95` },
];

const mean = (family: string, by = ""): string => `${rate(`${family}_sum`, by)} / ${rate(`${family}_count`, by)}`;

const TURNS = "hango_turn_duration_seconds_count";
const COST = "hango_usage_cost_total";
const COMPACTIONS = "hango_context_compactions_total";
const CALLS = "gen_ai_client_operation_duration_seconds";
const REQUESTS = "http_server_request_duration_seconds";
const MODEL = "gen_ai_request_model";

const overview: Row = {
  title: "Overview",
  panels: [
    {
      kind: "stat",
      title: "Turns",
      description: "Turns that ended in the time range, in whatever way.",
      unit: "short",
      expr: countedOrNone(TURNS),
    },
    {
      kind: "stat",
      title: "Failed turns",
      description: "Share of them that failed. A cancelled turn is none of these.",
      unit: "percentunit",
      expr: `(${counted(TURNS, "$__range", "", 'hango_run_status="failed"')}) / (${counted(TURNS, "$__range")})`,
      steps: [0.02, 0.05],
    },
    {
      kind: "stat",
      title: "Compactions per turn",
      description:
        "Committed at the trigger or after an overflow. Over 0.5 sessions are compacted again and again (alert HangoCompactionThrash).",
      unit: "none",
      expr: `(${counted(COMPACTIONS, "$__range", "", 'outcome="committed",reason=~"threshold|overflow|truncate"')}) / (${counted(TURNS, "$__range")})`,
      steps: [0.25, 0.5],
    },
    {
      kind: "stat",
      title: "Cost",
      description: "Of the time range, by list prices. Models without a known price are not in it.",
      unit: "currencyUSD",
      expr: countedOrNone(COST),
    },
    {
      kind: "stat",
      title: "Stranded runs",
      description: "Runs that the sweeper found without a Worker. A few after a deployment are normal.",
      unit: "short",
      expr: countedOrNone("hango_runs_stranded_total"),
      steps: [1, 20],
    },
    {
      kind: "stat",
      title: "Dead letters",
      description: "Queue messages that were given up: work that nobody does any more. Each is worth a look.",
      unit: "short",
      expr: countedOrNone("hango_queue_dead_letters_total"),
      steps: [1, 5],
    },
  ],
};

const turns: Row = {
  title: "Turns",
  panels: [
    {
      kind: "time",
      title: "Turns by status",
      description: "Turns that ended, per second.",
      unit: "reqps",
      draw: "stacked",
      targets: [{ expr: rate(TURNS, "hango_run_status"), legend: "{{hango_run_status}}" }],
    },
    {
      kind: "time",
      title: "Failed turns by error",
      description: "How many failed, by the code that their callers were told (docs/errors.md).",
      unit: "short",
      draw: "bars",
      targets: [{ expr: counted(TURNS, "$__rate_interval", "error_type", 'error_type!=""'), legend: "{{error_type}}" }],
    },
    {
      kind: "time",
      title: "Turn duration",
      description: "The time that Workers spent on a turn, mostly waiting for the model.",
      unit: "s",
      targets: p50p95("hango_turn_duration_seconds"),
    },
    {
      kind: "time",
      title: "Overhead",
      description:
        "The part of a turn that is not waiting for the provider: the database, the files, tools, and hango itself.",
      unit: "s",
      targets: p50p95("hango_turn_overhead_seconds"),
    },
    {
      kind: "time",
      title: "Round trips to the database",
      description: "Requests to the database per turn: two, and about one for each step.",
      unit: "none",
      targets: p50p95("hango_db_round_trips"),
    },
    {
      kind: "time",
      title: "Turns by what asked for them",
      description: "The API, a trigger, or hango's own maintenance; per second.",
      unit: "reqps",
      draw: "stacked",
      targets: [{ expr: rate(TURNS, "hango_run_trigger"), legend: "{{hango_run_trigger}}" }],
    },
  ],
};

const context: Row = {
  title: "Context",
  panels: [
    {
      kind: "time",
      title: "Context size by model",
      description: "Prompt of a model call, cached parts included. It should level off below the model's window.",
      unit: "short",
      targets: p50p95("hango_context_input_tokens", MODEL, `{{${MODEL}}} `),
    },
    {
      kind: "time",
      title: "Compactions by reason and outcome",
      description: "Attempts to make a view smaller: why they were made, and what became of them.",
      unit: "short",
      draw: "bars",
      targets: [
        { expr: counted(COMPACTIONS, "$__rate_interval", "reason, outcome"), legend: "{{reason}}: {{outcome}}" },
      ],
    },
    {
      kind: "time",
      title: "Evicted messages",
      description:
        "Messages that one committed compaction took out of the view; they stay in the log and in the history file.",
      unit: "short",
      targets: [
        ...p50p95("hango_context_evicted_messages"),
        { expr: rate("hango_context_evicted_messages_sum"), legend: "evicted per second" },
      ],
    },
    {
      kind: "time",
      title: "Guards",
      description:
        "Compactions that a guard held back. `effectiveness` and `same_result` mean that compacting does not help.",
      unit: "short",
      draw: "bars",
      targets: [{ expr: counted("hango_guard_blocked_total", "$__rate_interval", "guard"), legend: "{{guard}}" }],
    },
    {
      kind: "time",
      title: "Tool calls that are shown cut",
      description:
        "Calls whose arguments or result begin to be shown without their middle; tools of callers are `(other)`.",
      unit: "short",
      draw: "bars",
      targets: [
        {
          expr: counted("hango_context_tool_args_truncated_total", "$__rate_interval", "gen_ai_tool_name"),
          legend: "{{gen_ai_tool_name}}",
        },
      ],
    },
    {
      kind: "time",
      title: "Cache read ratio by model",
      description:
        "Mean share of a prompt that the provider read from its cache. A sudden fall means that the prefix changed (docs/context.md).",
      unit: "percentunit",
      targets: [{ expr: mean("hango_cache_read_ratio", MODEL), legend: `{{${MODEL}}}` }],
    },
  ],
};

const models: Row = {
  title: "Model calls and cost",
  panels: [
    {
      kind: "time",
      title: "Tokens by type and purpose",
      description: "Tokens per second; the input is the whole prompt, cached parts included.",
      unit: "short",
      draw: "stacked",
      targets: [
        {
          expr: rate("gen_ai_client_token_usage_sum", "gen_ai_token_type, hango_call_purpose"),
          legend: "{{hango_call_purpose}} {{gen_ai_token_type}}",
        },
      ],
    },
    {
      kind: "time",
      title: "Cost by model and purpose",
      description: "By list prices, in USD per hour.",
      unit: "currencyUSD",
      draw: "stacked",
      targets: [
        { expr: `3600 * ${rate(COST, `${MODEL}, hango_call_purpose`)}`, legend: `{{${MODEL}}} {{hango_call_purpose}}` },
      ],
    },
    {
      kind: "time",
      title: "Summariser's share of the cost",
      description:
        "What summaries cost, of all. A few percent is normal; over 25 % a quarter of the money is spent on shortening.",
      unit: "percentunit",
      targets: [{ expr: `${rate(COST, "", 'hango_call_purpose="summarize"')} / ${rate(COST)}`, legend: "share" }],
    },
    {
      kind: "time",
      title: "Duration of model calls (p95)",
      description: "Until the last token, by model and what the call was for.",
      unit: "s",
      targets: [
        {
          expr: quantile(0.95, CALLS, `${MODEL}, hango_call_purpose`),
          legend: `{{${MODEL}}} {{hango_call_purpose}}`,
        },
      ],
    },
    {
      kind: "time",
      title: "Failed model calls by error",
      description: "Calls that failed, repeated ones included. A `context_overflow` is answered by a compaction.",
      unit: "short",
      draw: "bars",
      targets: [
        {
          expr: counted(`${CALLS}_count`, "$__rate_interval", "gen_ai_provider_name, error_type", 'error_type!=""'),
          legend: "{{gen_ai_provider_name}} {{error_type}}",
        },
      ],
    },
    {
      kind: "time",
      title: "Model calls by provider",
      description: "Calls per second.",
      unit: "reqps",
      draw: "stacked",
      targets: [{ expr: rate(`${CALLS}_count`, "gen_ai_provider_name"), legend: "{{gen_ai_provider_name}}" }],
    },
  ],
};

const outside: Row = {
  title: "API, queue and clock",
  panels: [
    {
      kind: "time",
      title: "Requests by status",
      description: "Requests per second.",
      unit: "reqps",
      draw: "stacked",
      targets: [
        { expr: rate(`${REQUESTS}_count`, "http_response_status_code"), legend: "{{http_response_status_code}}" },
      ],
    },
    {
      kind: "time",
      title: "Requests that failed, by route",
      description: "4xx is the caller's (but 429 and 409 tell of load), 5xx is ours or the provider's.",
      unit: "short",
      draw: "bars",
      targets: [
        {
          expr: counted(
            `${REQUESTS}_count`,
            "$__rate_interval",
            "http_route, error_type",
            'http_response_status_code=~"5.."',
          ),
          legend: "5xx {{http_route}} {{error_type}}",
        },
        {
          expr: counted(
            `${REQUESTS}_count`,
            "$__rate_interval",
            "http_route, error_type",
            'http_response_status_code=~"4.."',
          ),
          legend: "4xx {{http_route}} {{error_type}}",
        },
      ],
    },
    {
      kind: "time",
      title: "Duration of requests (p95), by route",
      description: "Until the headers of the answer; a turn that is not streamed answers when it is over.",
      unit: "s",
      targets: [{ expr: quantile(0.95, REQUESTS, "http_route"), legend: "{{http_route}}" }],
    },
    {
      kind: "time",
      title: "Stranded runs and dead letters",
      description: "Runs found without a Worker, and queue messages given up, by type.",
      unit: "short",
      draw: "bars",
      targets: [
        { expr: counted("hango_runs_stranded_total", "$__rate_interval"), legend: "stranded" },
        {
          expr: counted("hango_queue_dead_letters_total", "$__rate_interval", "hango_queue_message_type"),
          legend: "dead: {{hango_queue_message_type}}",
        },
      ],
    },
  ],
};

const AGENT = `span.${genai.operationName} = "${genai.operation.invokeAgent}"`;
const SHOWN = [genai.conversationId, hango.runId, hango.runStatus, hango.turnSteps]
  .map((name) => `span.${name}`)
  .join(", ");

const traces: Row = {
  title: "Traces",
  panels: [
    {
      kind: "traces",
      title: "Failed turns",
      description: "Their sessions and runs; open one to see which call failed.",
      query: `{ ${AGENT} && span.${hango.runStatus} = "failed" } | select(${SHOWN})`,
    },
    {
      kind: "traces",
      title: "Slow turns",
      description: "Longer than a minute: look whether the model, a tool or a summary took the time.",
      query: `{ ${AGENT} && duration > 1m } | select(${SHOWN})`,
    },
    {
      kind: "traces",
      title: "Compacted turns",
      description:
        "Turns in which a model call followed a compaction. The event gen_ai.conversation.compacted on the turn has the sizes.",
      query: `{ span.${genai.compacted} = true } << { ${AGENT} } | select(${SHOWN})`,
    },
    {
      kind: "traces",
      title: "Summaries",
      description: "Calls of the summariser, whatever became of them.",
      query: `{ span.${hango.callPurpose} = "summarize" } | select(span.${genai.requestModel}, span.${genai.inputTokens}, span.${genai.outputTokens})`,
    },
  ],
};

export const rows: readonly Row[] = [overview, turns, context, models, outside, traces];
