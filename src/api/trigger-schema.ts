/** A trigger in the words of the API: what is given and what is shown. */
import { z } from "@hono/zod-openapi";
import type { TriggerRecord } from "../store/triggers.ts";
import { configOf } from "../webhooks/event.ts";
import { filterTests } from "../webhooks/filters.ts";
import type { TriggerCall } from "../webhooks/trigger-config.ts";
import { DEFAULT_HMAC_HEADER, DEFAULT_TOLERANCE_SECONDS, schemeNames } from "../webhooks/verification.ts";
import { createSessionSchema } from "./session-schema.ts";
import { HIDDEN, shownTools } from "./session-tools.ts";
import { boundedText, holdsNul } from "./text.ts";

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, "expected the name of an HTTP header");
const path = boundedText(500, 1).regex(
  /^(payload|headers)(\.[^.]+)+$/,
  "expected a path such as `payload.action` or `headers.x-github-event`",
);
const scalar = z.union([boundedText(1_000), z.number(), z.boolean()]);
const template = (maxChars: number) => boundedText(maxChars, 1);

export const secretText = boundedText(500, 8);

const eventIdSchema = z
  .union([z.strictObject({ header: headerName }), z.strictObject({ path: boundedText(500, 1) })])
  .openapi({ description: "Where an event has its id. Default: where the sender puts it." });

const verificationSchema = z
  .strictObject({
    scheme: z.enum(schemeNames).openapi({
      description:
        "`standard`: Standard Webhooks. `github`: X-Hub-Signature-256. `slack`: v0. `stripe`: Stripe-Signature. `linear`: Linear-Signature. `hmac`: any other keyed hash of the body. `bearer`: the secret itself.",
    }),
    tolerance_seconds: z
      .int()
      .min(1)
      .max(86_400)
      .optional()
      .openapi({
        description: `Oldest a delivery may be, by the time that its sender signed. Default: ${DEFAULT_TOLERANCE_SECONDS}.`,
      }),
    event_id: eventIdSchema.optional(),
    header: headerName.optional().openapi({ description: `hmac: the signature's. Default: ${DEFAULT_HMAC_HEADER}.` }),
    algorithm: z.enum(["sha256", "sha1", "sha512"]).optional().openapi({ description: "hmac. Default: sha256." }),
    encoding: z.enum(["hex", "base64"]).optional().openapi({ description: "hmac. Default: hex." }),
    prefix: boundedText(50)
      .optional()
      .openapi({ description: "hmac: what stands before the signature, such as `sha256=`." }),
    timestamp_header: headerName.optional().openapi({
      description: "hmac: a header with the time in seconds; the time, the separator and the body are signed together.",
    }),
    separator: boundedText(5).optional().openapi({ description: "hmac. Default: a full stop." }),
  })
  .superRefine((given, context) => {
    if (given.scheme === "hmac") return;
    for (const name of ["header", "algorithm", "encoding", "prefix", "timestamp_header", "separator"] as const) {
      if (given[name] !== undefined) context.addIssue({ code: "custom", path: [name], message: "is for `hmac` alone" });
    }
  });

const filterSchema = z
  .strictObject({
    path,
    equals: scalar.optional(),
    not_equals: scalar.optional(),
    in: z.array(scalar).min(1).max(100).optional(),
    not_in: z.array(scalar).min(1).max(100).optional(),
    exists: z.boolean().optional(),
    prefix: boundedText(1_000, 1).optional(),
    suffix: boundedText(1_000, 1).optional(),
    contains: boundedText(1_000, 1).optional().openapi({ description: "Within a text, or as a member of a list." }),
  })
  .refine(
    (given) => filterTests.filter((test) => given[test] !== undefined).length === 1,
    `expected exactly one of ${filterTests.join(", ")}`,
  )
  .openapi("TriggerFilter", { example: { path: "payload.action", in: ["opened", "reopened"] } });

const callSchema = z
  .strictObject({
    url: template(2_048).openapi({
      description:
        "Called with POST. A template: its host is literal, or the whole URL is one tag, and then there are no headers.",
      example: "https://api.example.com/issues/{{payload.issue.number}}/comments",
    }),
    headers: z
      .record(
        headerName,
        z
          .string()
          .max(4_096)
          .regex(/^[\t\x20-\x7e]*$/, "expected visible ASCII characters")
          .refine(
            (value) => value !== HIDDEN,
            `${HIDDEN} is what hango shows instead of a value; give the value itself`,
          ),
      )
      .refine((given) => Object.keys(given).length <= 20, "at most 20 headers")
      .optional()
      .openapi({ description: "Values are shown as `[hidden]`." }),
    body: z
      .union([boundedText(20_000), z.record(z.string(), z.unknown())])
      .refine((body) => !holdsNul(body), "must not contain NUL characters")
      .refine((body) => JSON.stringify(body).length <= 20_000, "at most 20,000 characters")
      .optional()
      .openapi({
        description:
          "Text is sent as text. Of an object every string is a template, and it is sent as JSON. Absent: a report.",
      }),
  })
  .openapi("TriggerCall");

const responseSchema = z.strictObject({
  status: z.union([z.literal(200), z.literal(201), z.literal(202), z.literal(204)]),
  body: boundedText(2_000).optional(),
});

const settings = {
  name: boundedText(200),
  enabled: z.boolean(),
  session: createSessionSchema.omit({ key: true }).openapi("TriggerSession", {
    description:
      "What the sessions that it makes are created with: model, system, tools, skills, limits, context settings.",
  }),
  budget: z
    .strictObject({ max_usd: z.number().positive().max(10_000) })
    .openapi({ description: "Most that one turn may cost, at list price." }),
  session_key: template(1_000).openapi({
    description: "Template of the key of the session that an event goes to. Default: a session for every event.",
    example: "github:{{payload.repository.full_name}}#{{payload.issue.number}}",
  }),
  prompt: template(32_000).openapi({
    description:
      "Template (Mustache) of the message. Every value is put between backticks, as data. Default: the whole payload.",
    example: "Triage issue {{payload.issue.number}}: {{payload.issue.title}} {{payload.issue.body}}",
  }),
  on_busy: z.enum(["queue", "join", "interrupt", "reject"]).openapi({ description: "Default: queue." }),
  filters: z.array(filterSchema).max(50).openapi({ description: "An event is taken when all of them hold." }),
  own_events: z
    .strictObject({
      ignore_bots: z.boolean().optional(),
      senders: z.array(boundedText(200, 1)).max(50).optional(),
    })
    .openapi({
      description:
        "The agent's own doings come back as events: those of bots and apps (GitHub, Slack, Linear) are ignored unless `ignore_bots` is false, and those of `senders` (logins, user or bot ids) always.",
    }),
  debounce_seconds: z.int().min(0).max(3_600).openapi({
    description: "Events of one session within so many seconds become one turn. Default: 0.",
  }),
  reply: callSchema,
};

const webhookSettings = {
  verification: verificationSchema,
  response: responseSchema.openapi({
    description: "What the sender is answered with. Default: 202 and the delivery's id; 200 and nothing for Slack.",
  }),
  ack: callSchema,
};

const cronSettings = {
  schedule: z.strictObject({
    cron: boundedText(200, 1).openapi({ example: "0 9 * * 1-5" }),
    time_zone: boundedText(100, 1).default("UTC").openapi({ example: "Europe/Berlin" }),
  }),
  payload: z
    .record(z.string(), z.unknown())
    .refine((payload) => !holdsNul(payload), "must not contain NUL characters")
    .refine((payload) => JSON.stringify(payload).length <= 20_000, "at most 20,000 characters")
    .openapi({ description: "Is joined by `scheduled_at` and `fired_at`." }),
};

const optional = <S extends Readonly<Record<string, z.ZodType>>>(shape: S) =>
  Object.fromEntries(Object.entries(shape).map(([name, schema]) => [name, schema.optional()])) as {
    readonly [K in keyof S]: z.ZodOptional<S[K]>;
  };

const defaulted = {
  ...optional(settings),
  name: settings.name.default(""),
  enabled: settings.enabled.default(true),
  session: settings.session.default({}),
  on_busy: settings.on_busy.default("queue"),
  filters: settings.filters.default([]),
  own_events: settings.own_events.default({}),
  debounce_seconds: settings.debounce_seconds.default(0),
};

const webhookTrigger = z.strictObject({
  type: z.literal("webhook"),
  ...defaulted,
  ...optional(webhookSettings),
  verification: verificationSchema,
});

const cronTrigger = z
  .strictObject({
    type: z.literal("cron"),
    ...defaulted,
    ...optional(cronSettings),
    schedule: cronSettings.schedule,
    prompt: settings.prompt,
  })
  .openapi("CronTrigger");

/** A trigger's settings as a whole; what a change leads to is checked by it too. */
export const triggerSettings = z.discriminatedUnion("type", [webhookTrigger, cronTrigger]);
export type TriggerSettings = z.infer<typeof triggerSettings>;

export const createTriggerSchema = z
  .discriminatedUnion("type", [
    // Named here and not above: of two closed objects in an `allOf`, nothing satisfies both.
    webhookTrigger
      .extend({
        secret: secretText.optional().openapi({
          description: "Default: one is made and shown once. Slack's and Stripe's are theirs and must be given.",
        }),
      })
      .openapi("WebhookTrigger"),
    cronTrigger,
  ])
  .openapi("CreateTrigger", {
    example: {
      type: "webhook",
      name: "triage",
      session: { system: "You triage issues." },
      verification: { scheme: "github" },
      session_key: "github:{{payload.repository.full_name}}#{{payload.issue.number}}",
      filters: [{ path: "payload.action", equals: "opened" }],
    },
  });

export const changeTriggerSchema = z
  .strictObject(
    Object.fromEntries(
      Object.entries({ ...settings, ...webhookSettings, ...cronSettings }).map(([name, schema]) => [
        name,
        (schema as z.ZodType).nullable().optional(),
      ]),
    ),
  )
  .openapi("ChangeTrigger", {
    description: "Each member replaces what was set; null takes it back.",
    example: { enabled: false },
  });

export const triggerSchema = z
  .looseObject({
    id: z.string(),
    type: z.enum(["webhook", "cron"]),
    name: z.string(),
    enabled: z.boolean(),
    url: z.string().nullable().openapi({ description: "Where the sender posts to; null for cron." }),
    session: z.looseObject({}),
    budget: z.looseObject({}).nullable(),
    session_key: z.string().nullable(),
    prompt: z.string().nullable(),
    on_busy: z.string(),
    filters: z.array(z.looseObject({})),
    own_events: z.looseObject({}),
    debounce_seconds: z.int(),
    verification: z.looseObject({}).nullable(),
    response: z.looseObject({}).nullable(),
    ack: z.looseObject({}).nullable(),
    reply: z.looseObject({}).nullable(),
    schedule: z.looseObject({}).nullable(),
    payload: z.looseObject({}).nullable(),
    secrets: z.array(
      z.object({
        id: z.string(),
        created_at: z.iso.datetime(),
        expires_at: z.iso
          .datetime()
          .nullable()
          .openapi({ description: "Until then it is accepted; null: the newest." }),
      }),
    ),
    next_at: z.iso.datetime().nullable().openapi({ description: "When a cron trigger is due." }),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Trigger");

export const createdTriggerSchema = triggerSchema
  .extend({
    secret: z.string().nullable().openapi({
      description:
        "Shown now and never again; null where the scheme has none, it was given, or the answer is a replay.",
    }),
  })
  .openapi("CreatedTrigger");

const shownCall = (call: TriggerCall | undefined) =>
  call === undefined
    ? null
    : {
        ...call,
        ...(call.headers === undefined
          ? {}
          : { headers: Object.fromEntries(Object.keys(call.headers).map((name) => [name, HIDDEN])) }),
      };

const isTools = (value: unknown): value is readonly Readonly<Record<string, unknown>>[] => Array.isArray(value);

/** A trigger as the API shows it: without its secrets. @param origin where the API is reached */
export const showTrigger = (trigger: TriggerRecord, origin: string) => {
  const config = configOf(trigger);
  const { tools } = config.session;
  return {
    id: trigger.id,
    type: trigger.type,
    name: trigger.name,
    enabled: trigger.enabled,
    url: trigger.type === "webhook" ? `${origin}/hooks/${trigger.id}` : null,
    session: { ...config.session, ...(isTools(tools) ? { tools: shownTools(tools) } : {}) },
    budget: config.budget ?? null,
    session_key: config.session_key ?? null,
    prompt: config.prompt ?? null,
    on_busy: config.on_busy,
    filters: config.filters,
    own_events: config.own_events,
    debounce_seconds: config.debounce_seconds,
    verification: config.verification ?? null,
    response: config.response ?? null,
    ack: shownCall(config.ack),
    reply: shownCall(config.reply),
    schedule: config.schedule ?? null,
    payload: config.payload ?? null,
    secrets: trigger.secrets.map(({ id, created_at, expires_at }) => ({
      id,
      created_at: new Date(created_at).toISOString(),
      expires_at: expires_at === null ? null : new Date(expires_at).toISOString(),
    })),
    next_at: trigger.nextAt,
    created_at: trigger.createdAt,
    updated_at: trigger.updatedAt,
  };
};
