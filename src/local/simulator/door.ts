/** The simulator's own routes under `/_sim`, for tests and demos in another process. */
import { z } from "zod";
import type { Catalogue, ModelOverride } from "./catalogue.ts";
import type { Gates } from "./gates.ts";
import type { RequestRecord } from "./record.ts";
import type { Script } from "./script.ts";
import { parseEntries } from "./script.ts";

const gateName = z.strictObject({ name: z.string() });
const clockShift = z.strictObject({ advance_ms: z.number().min(0) });
const overrides = z.record(
  z.string(),
  z.strictObject({
    maxInputTokens: z.int().min(1).optional(),
    maxOutputTokens: z.int().min(1).optional(),
    tokenFactor: z.number().positive().optional(),
    bindsThinking: z.boolean().optional(),
    allowsPrefill: z.boolean().optional(),
    overrun: z.enum(["reject", "stop"]).optional(),
    cacheMinimumTokens: z.int().min(0).optional(),
    server: z.enum(["openai", "vllm", "llama.cpp"]).optional(),
    strictTemplate: z.boolean().optional(),
    reasons: z.boolean().optional(),
  }),
);

export interface DoorControls {
  readonly script: Script;
  readonly record: RequestRecord;
  readonly gates: Gates;
  readonly catalogue: Catalogue;
  readonly advance: (ms: number) => void;
  readonly reset: () => void;
}

const given = (change: z.infer<typeof overrides>[string]): ModelOverride =>
  Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));

/**
 * Answers one request to `/_sim/...`:
 * `POST script` (entries), `GET requests` (`?since=` index), `POST release` and `GET reached` (a gate by name; `reached`
 * answers once an answer waits there), `POST models` (overrides by id), `POST clock` (`advance_ms`), `POST reset`.
 * @returns the status and the JSON of the answer
 */
export const answerDoor = async (
  method: string,
  url: URL,
  bodyText: string,
  controls: DoorControls,
): Promise<{ readonly status: number; readonly body: unknown }> => {
  try {
    const body: unknown = bodyText === "" ? {} : JSON.parse(bodyText);
    switch (`${method} ${url.pathname}`) {
      case "POST /_sim/script":
        controls.script.add(parseEntries(body));
        return { status: 200, body: { pending: controls.script.pending() } };
      case "GET /_sim/requests":
        return {
          status: 200,
          body: { requests: controls.record.list.slice(Number(url.searchParams.get("since") ?? 0)) },
        };
      case "POST /_sim/release":
        controls.gates.open(gateName.parse(body).name);
        return { status: 200, body: {} };
      case "GET /_sim/reached":
        await controls.gates.reached(url.searchParams.get("name") ?? "");
        return { status: 200, body: {} };
      case "POST /_sim/models":
        controls.catalogue.override(
          Object.fromEntries(Object.entries(overrides.parse(body)).map(([id, change]) => [id, given(change)])),
        );
        return { status: 200, body: {} };
      case "POST /_sim/clock":
        controls.advance(clockShift.parse(body).advance_ms);
        return { status: 200, body: {} };
      case "POST /_sim/reset":
        controls.reset();
        return { status: 200, body: {} };
      default:
        return { status: 404, body: { error: `no such route: ${method} ${url.pathname}` } };
    }
  } catch (error) {
    return { status: 400, body: { error: error instanceof Error ? error.message : "invalid" } };
  }
};
