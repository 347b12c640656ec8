/** The three doors of the Worker: HTTP, queue and clock. Each builds what it works with and hands it inwards. */
import { createApp } from "./api/app.ts";
import { type Config, ConfigError, parseConfig } from "./config.ts";
import { newId } from "./protocol/ids.ts";
import { connect } from "./store/db.ts";
import { consoleSink, createLog } from "./telemetry/log.ts";
import { activeTraceIds, otelTracer } from "./telemetry/otel.ts";
import { instrumentWorker } from "./telemetry/worker.ts";
import { consume } from "./turns/consume.ts";
import type { Deps } from "./turns/deps.ts";
import { maintain } from "./turns/maintenance.ts";
import type { QueueMessage } from "./turns/queue.ts";

/** The configuration by the environment that it was read from: the same object for all requests of an isolate. */
const configs = new WeakMap<object, Config>();

/** @throws ConfigError, whose message names every problem and holds no secret; it is logged, since a caller must not see it */
const configOf = (env: object): Config => {
  const known = configs.get(env);
  if (known !== undefined) return known;
  try {
    const config = parseConfig(env);
    configs.set(env, config);
    return config;
  } catch (error) {
    if (error instanceof ConfigError) {
      createLog({ level: "error", sink: consoleSink, traceIds: activeTraceIds }).error("the configuration is wrong", {
        problems: error.message,
      });
    }
    throw error;
  }
};

const makeDeps = (env: object, waitUntil: Deps["waitUntil"]): Deps => {
  const config = configOf(env);
  return {
    config,
    db: connect(
      {
        databaseUrl: config.databaseUrl,
        fetchEndpoint: config.databaseFetchEndpoint,
        timeoutMs: config.databaseTimeoutMs,
      },
      otelTracer,
    ),
    bucket: config.files,
    queue: config.queue,
    tracer: otelTracer,
    log: createLog({ level: config.logLevel, sink: consoleSink, traceIds: activeTraceIds }),
    newId,
    now: () => Date.now(),
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    fetch: (input, init) => fetch(input, init),
    waitUntil,
  };
};

const app = createApp({ makeDeps: ({ env, waitUntil }) => makeDeps(Object(env), waitUntil) });

export default instrumentWorker<object, QueueMessage>(
  {
    fetch: async (request, env, context) => app.fetch(request, env, context),
    queue: (batch, env, context) =>
      consume(
        makeDeps(env, (work) => context.waitUntil(work)),
        batch,
      ),
    scheduled: (_controller, env, context) => maintain(makeDeps(env, (work) => context.waitUntil(work))),
  },
  (env) => configOf(env).telemetry,
);
