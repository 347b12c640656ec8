/** Puts the Worker's three doors under OpenTelemetry, when a collector is configured, and leaves them alone when none is. */
import { instrument } from "@microlabs/otel-cf-workers";
import { gatherSpans, sendTo } from "./export.ts";
import { consoleSink, createLog } from "./log.ts";
import { startMetrics } from "./metrics.ts";

export interface TelemetrySettings {
  /** Base address of a collector; undefined when there is none. */
  readonly endpoint: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

/** The doors of a Worker. */
export interface Doors<Env, Message> {
  fetch(request: Request, env: Env, context: ExecutionContext): Promise<Response>;
  queue(batch: MessageBatch<Message>, env: Env, context: ExecutionContext): Promise<void>;
  scheduled(controller: ScheduledController, env: Env, context: ExecutionContext): Promise<void>;
}

/** Well inside the 30 s that the platform gives work after the response. */
const EXPORT_TIMEOUT_MS = 10_000;

/**
 * What travels through the library in the place of the environment. It would wrap every binding and every queue message, and its wrapped
 * `retry()` forgets the delay; so it is given one opaque object to carry.
 */
interface Parcel<Env, Message> {
  readonly parcel: { readonly env: Env; readonly batch?: MessageBatch<Message>; readonly settings: TelemetrySettings };
}

const failed = (reason: string): void => {
  const log = createLog({ level: "warn", sink: consoleSink, traceIds: () => undefined });
  log.warn("telemetry export failed", { reason });
};

/**
 * Wraps the doors so that each invocation is a span, parent of those that `otelTracer` starts. Global `fetch` is left as it is: the
 * library would send our trace ids to every host and record addresses with their queries.
 * @param settingsOf reads the environment; when it throws, the door is opened without telemetry and reports the error itself
 */
export const instrumentWorker = <Env, Message>(
  doors: Doors<Env, Message>,
  settingsOf: (env: Env) => TelemetrySettings,
): Doors<Env, Message> => {
  type Carried = Parcel<Env, Message>;

  const instrumented = instrument<Carried, unknown, unknown>(
    {
      fetch: (request, { parcel }, context) => doors.fetch(request as Request, parcel.env, context),
      queue: (_wrapped, { parcel }, context) =>
        parcel.batch === undefined ? undefined : doors.queue(parcel.batch, parcel.env, context),
      scheduled: (controller, { parcel }, context) => doors.scheduled(controller, parcel.env, context),
    },
    ({ parcel: { settings } }: Carried) => {
      const { endpoint = "", headers, serviceName } = settings;
      const collector = { endpoint, headers, timeoutMs: EXPORT_TIMEOUT_MS };
      const flushMetrics = startMetrics({ collector, serviceName });
      return {
        service: { name: serviceName },
        spanProcessors: [gatherSpans(sendTo(collector), failed, flushMetrics)],
        // Callers of a public API do not decide what is recorded, nor under which trace.
        handlers: { fetch: { acceptTraceContext: false } },
        fetch: { includeTraceContext: false },
        instrumentation: { instrumentGlobalFetch: false, instrumentGlobalCache: false },
      };
    },
  );

  const settingsFor = (env: Env): TelemetrySettings | undefined => {
    try {
      const settings = settingsOf(env);
      return settings.endpoint === undefined ? undefined : settings;
    } catch {
      return undefined;
    }
  };

  return {
    fetch: async (request, env, context) => {
      const settings = settingsFor(env);
      if (settings === undefined || instrumented.fetch === undefined) return doors.fetch(request, env, context);
      return instrumented.fetch(
        request as Parameters<typeof instrumented.fetch>[0],
        { parcel: { env, settings } },
        context,
      );
    },
    queue: async (batch, env, context) => {
      const settings = settingsFor(env);
      if (settings === undefined || instrumented.queue === undefined) return doors.queue(batch, env, context);
      await instrumented.queue(batch, { parcel: { env, batch, settings } }, context);
    },
    scheduled: async (controller, env, context) => {
      const settings = settingsFor(env);
      if (settings === undefined || instrumented.scheduled === undefined)
        return doors.scheduled(controller, env, context);
      await instrumented.scheduled(controller, { parcel: { env, settings } }, context);
    },
  };
};
