/** The three doors of the Worker: HTTP, queue and clock. Each reads the configuration and hands on; there is no logic here. */
import { createApp } from "./api/app.ts";
import { sessionFromSettings } from "./api/session-create.ts";
import { type Config, ConfigError, parseConfig } from "./config.ts";
import { consoleSink, createLog } from "./telemetry/log.ts";
import { activeTraceIds } from "./telemetry/otel.ts";
import { instrumentWorker } from "./telemetry/worker.ts";
import { consume, givenUpTurnMessages, turnMessages } from "./turns/consume.ts";
import type { Deps } from "./turns/deps.ts";
import { enqueueTurn } from "./turns/enqueue.ts";
import { maintain } from "./turns/maintenance.ts";
import { makeDeps } from "./turns/make-deps.ts";
import type { QueueMessage } from "./turns/queue.ts";
import { turnTasks } from "./turns/tasks.ts";
import { triggerTasks } from "./webhooks/cron.ts";
import { outboundMessages, outboundTasks } from "./webhooks/outbound/deliver.ts";
import { givenUpTriggerMessages, triggerMessages, withReplies } from "./webhooks/trigger-messages.ts";

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
      const log = createLog({ level: "error", sink: consoleSink, traceIds: activeTraceIds });
      log.error("the configuration is wrong", { problems: error.message });
    }
    throw error;
  }
};

const depsOf = (env: object, context: Pick<ExecutionContext, "waitUntil">): Deps =>
  makeDeps(configOf(env), (work) => context.waitUntil(work));

const app = createApp({ makeDeps: ({ env, waitUntil }) => depsOf(Object(env), { waitUntil }) });

const handlers = {
  ...turnMessages,
  run_turn: withReplies(turnMessages.run_turn),
  ...triggerMessages({ newSession: sessionFromSettings, enqueueTurn }),
  ...outboundMessages,
};
const givenUp = { ...givenUpTurnMessages, ...givenUpTriggerMessages };
const tasks = [...turnTasks, ...triggerTasks, ...outboundTasks];

export default instrumentWorker<object, QueueMessage>(
  {
    fetch: async (request, env, context) => app.fetch(request, env, context),
    queue: (batch, env, context) => consume(depsOf(env, context), batch, { handlers, givenUp }),
    scheduled: (_controller, env, context) => maintain(depsOf(env, context), tasks),
  },
  (env) => configOf(env).telemetry,
);
