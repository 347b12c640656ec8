/** `POST /hooks/{id}`: the public door of a trigger. No key; what proves the sender is the trigger's own scheme. */
import { z } from "@hono/zod-openapi";
import { isId } from "../protocol/ids.ts";
import { MAX_DEPTH, MAX_VALUES, type PayloadProblem } from "../webhooks/payload.ts";
import { type HookOutcome, receive } from "../webhooks/receive.ts";
import { readAtMost } from "./body.ts";
import type { App, Ctx } from "./env.ts";
import { respondToError } from "./error-response.ts";
import { ApiError, invalid, notFound } from "./errors.ts";
import { RATE_PERIOD_SECONDS } from "./middleware.ts";
import { operation } from "./operation.ts";

/** Told to a sender that has proved itself; of what is not its sender's nothing is read. */
const PAYLOAD_PROBLEMS: Readonly<Record<PayloadProblem, string>> = {
  not_utf8: "is not valid UTF-8",
  empty: "is empty; expected JSON",
  too_deep: `is nested deeper than ${MAX_DEPTH} levels`,
  too_many_values: `has more than ${MAX_VALUES.toLocaleString("en")} values`,
  not_json: "is not valid JSON",
};

const problemOf = (
  outcome: Exclude<HookOutcome, { readonly kind: "taken" } | { readonly kind: "handshake" }>,
): ApiError => {
  switch (outcome.kind) {
    case "unknown":
      return notFound("trigger");
    case "too_large":
      return new ApiError("payload_too_large", "The body is larger than 1 MB.");
    case "wrong_content_type":
      return new ApiError("unsupported_media_type", "The trigger takes `Content-Type: application/json`.", {
        param: "Content-Type",
      });
    case "unverified":
      return new ApiError(
        "webhook_unverified",
        "The delivery could not be verified. The trigger's deliveries, which its owner can read, say why.",
      );
    case "bad_payload":
      return invalid("body", PAYLOAD_PROBLEMS[outcome.problem]);
    default:
      return outcome satisfies never;
  }
};

const jsonResponse = (status: number, body: object): Response =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

const textResponse = (status: number, body: string): Response =>
  new Response(status === 204 || body === "" ? null : body, {
    status,
    ...(status === 204 || body === "" ? {} : { headers: { "Content-Type": contentTypeOf(body) } }),
  });

/** What a configured body is: JSON when it reads as such. */
const contentTypeOf = (body: string): string =>
  /^\s*[{[]/.test(body) ? "application/json" : "text/plain; charset=utf-8";

/** The answer that the sender gets. An event that is a duplicate, ignored or failed is answered like any other: it is not to be sent again. */
export const hookAnswer = (c: Ctx, outcome: HookOutcome): Response => {
  if (outcome.kind === "handshake") {
    return outcome.challenge === null
      ? jsonResponse(200, { delivery_id: outcome.deliveryId, status: "handshake" })
      : jsonResponse(200, { challenge: outcome.challenge });
  }
  if (outcome.kind !== "taken") return respondToError(problemOf(outcome), c);
  const { response, scheme, deliveryId, state } = outcome;
  if (response?.body !== undefined) return textResponse(response.status, response.body);
  // Slack shows a command's user whatever body it gets, and wants a 200.
  if (scheme === "slack") return textResponse(response?.status ?? 200, "");
  if (response?.status === 204) return textResponse(204, "");
  return jsonResponse(response?.status ?? 202, { delivery_id: deliveryId, status: state });
};

/** The same limiter that counts requests by key, counting by trigger. */
const limitRate = async (c: Ctx, id: string): Promise<void> => {
  const limited = await c.get("deps").config.rateLimiter?.limit({ key: `hook:${id}` });
  if (limited?.success === false) {
    throw new ApiError("rate_limited", "The trigger gets too many requests.", {
      retryAfterSeconds: RATE_PERIOD_SECONDS,
    });
  }
};

export const registerHooks = (app: App): void =>
  operation(
    app,
    {
      method: "post",
      path: "/hooks/{id}",
      access: "public",
      readsBody: true,
      tags: ["triggers"],
      operationId: "postHook",
      summary: "The address of a trigger",
      description:
        "For the sender that the trigger was made for: the signature (or the secret) stands in the headers that its scheme wants. Stored, then answered: 202, or what the trigger says, also for an event that was seen before or is filtered.",
      request: {
        params: z.object({ id: z.string() }),
        body: { required: true, content: { "application/json": { schema: z.looseObject({}) } } },
      },
      responses: {
        200: { description: "Taken (Slack, handshakes, or as configured)." },
        202: {
          description: "Taken.",
          content: {
            "application/json": {
              schema: z.object({ delivery_id: z.string(), status: z.string() }).openapi("HookAnswer"),
            },
          },
        },
      },
    },
    async (c) => {
      const { id } = c.req.valid("param");
      if (!isId("trg", id)) throw notFound("trigger");
      await limitRate(c, id);
      const headers = Object.fromEntries([...c.req.raw.headers].map(([name, value]) => [name.toLowerCase(), value]));
      const outcome = await receive(c.get("deps"), {
        triggerId: id,
        headers,
        body: (limitBytes) => readAtMost(c.req.raw, limitBytes),
      });
      return hookAnswer(c, outcome);
    },
  );
