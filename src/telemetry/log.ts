/** Logs: one JSON object per line. Fields are plain values, so that no error object, body or message can slip in with its content. */
import { isSecretName, redact } from "../protocol/redact.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Where a span stands, so that a log line can be found from its trace and back. */
export interface TraceIds {
  readonly trace_id: string;
  readonly span_id: string;
}

/** Never throws and never waits. Messages are fixed texts; what varies goes into the fields, and content goes nowhere. */
export interface Log {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  /** The same log with these fields on every line. */
  with(fields: LogFields): Log;
}

export interface LogOptions {
  /** The least severe level that is written. */
  readonly level: LogLevel;
  /** Takes a finished line without its line end. */
  readonly sink: (line: string, level: LogLevel) => void;
  /** The ids of the span that is active when a line is written. */
  readonly traceIds: () => TraceIds | undefined;
}

const SEVERITY = { debug: 0, info: 1, warn: 2, error: 3 } as const satisfies Record<LogLevel, number>;

/** A field is a fact, not a text: whatever is longer is cut, in characters. */
const LONGEST_FIELD = 1000;

const fact = (name: string, text: string): string => {
  if (isSecretName(name)) return "[redacted named_secret]";
  // Before it is cut, since half a secret is not recognised.
  const safe = redact(text).text;
  return safe.length > LONGEST_FIELD ? `${safe.slice(0, LONGEST_FIELD).toWellFormed()}...` : safe;
};

/** Fields as they may be written: short, and without secrets (S6), should an error's words bring one along. */
const bounded = (fields: LogFields): LogFields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, typeof value === "string" ? fact(name, value) : value]),
  );

/** Makes a log. */
export const createLog = (options: LogOptions, common: LogFields = {}): Log => {
  const write = (level: LogLevel, msg: string, fields: LogFields = {}) => {
    if (SEVERITY[level] < SEVERITY[options.level]) return;
    try {
      options.sink(
        JSON.stringify({ ...bounded(common), ...bounded(fields), level, msg, ...options.traceIds() }),
        level,
      );
    } catch {
      // A log that cannot be written must not become the request's failure.
    }
  };
  return {
    debug: (msg, fields) => write("debug", msg, fields),
    info: (msg, fields) => write("info", msg, fields),
    warn: (msg, fields) => write("warn", msg, fields),
    error: (msg, fields) => write("error", msg, fields),
    with: (fields) => createLog(options, { ...common, ...fields }),
  };
};

/** Writes to the console by level, which is where Workers Logs reads. */
export const consoleSink: LogOptions["sink"] = (line, level) => console[level](line);
