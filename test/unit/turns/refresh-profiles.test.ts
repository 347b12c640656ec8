import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseConfig } from "../../../src/config.ts";
import { type Simulator, startSimulator } from "../../../src/local/simulator/server.ts";
import { newId } from "../../../src/protocol/ids.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { noTelemetry } from "../../../src/telemetry/none.ts";
import type { Deps } from "../../../src/turns/deps.ts";
import { refreshProfiles } from "../../../src/turns/refresh-profiles.ts";
import { type TestDatabase, testDatabase } from "../../support/database.ts";
import { connectTo } from "../../support/store.ts";

let database: TestDatabase;
let simulator: Simulator;

beforeAll(async () => {
  database = await testDatabase({ kind: "postgres" });
  simulator = await startSimulator();
});
afterAll(async () => {
  await simulator.close();
  await database.close();
});

const method = () => Promise.reject(new Error("not used here"));
const logged: string[] = [];

const depsFor = (baseUrl: string, more: Readonly<Record<string, string>> = {}): Deps => {
  const config = parseConfig({
    ...more,
    DATABASE_URL: database.connectionString,
    ANTHROPIC_API_KEY: "sk-sim-test",
    ANTHROPIC_BASE_URL: baseUrl,
    HANGO_ADMIN_KEY: "0123456789abcdef01234567",
    FILES: { get: method, put: method, list: method, delete: method, head: method },
    QUEUE: { send: method },
  });
  return {
    config,
    db: connectTo(database),
    bucket: config.files,
    queue: config.queue,
    ...noTelemetry,
    log: createLog({ level: "debug", sink: (line) => logged.push(line), traceIds: () => undefined }),
    newId,
    now: () => Date.now(),
    sleep: method,
    fetch,
    waitUntil: () => undefined,
  };
};

describe("refreshing the models' profiles (E7)", () => {
  it("keeps what the provider says, that it knows no such model, and nothing when it does not answer", async () => {
    for (const model of ["claude-sonnet-4-5", "nobody-knows-it"]) {
      await database.sql(
        `insert into usage_records (id, tenant_id, session_id, purpose, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)
         values ($1, 't', 's', 'turn', $2, 1, 1, 0, 0)`,
        [newId("usg"), model],
      );
    }
    const profiles = () =>
      database.sql("select model, max_input_tokens, max_output_tokens from model_profiles order by model");
    await refreshProfiles(depsFor("http://127.0.0.1:9"));
    expect(await profiles()).toEqual([]);
    expect(logged.filter((line) => line.includes("did not describe"))).toHaveLength(2);
    await refreshProfiles(depsFor(simulator.url));
    expect(await profiles()).toEqual([
      { model: "claude-sonnet-4-5", max_input_tokens: 200_000, max_output_tokens: 64_000 },
      { model: "nobody-knows-it", max_input_tokens: null, max_output_tokens: null },
    ]);
  });

  it("asks a chat completions server about its own models, and nobody where there is none", async () => {
    const profiles = () =>
      database.sql(
        "select max_input_tokens, max_output_tokens from model_profiles where model like 'openai/%' order by model",
      );
    for (const model of ["openai/sim-reasoner", "openai/sim-chat"]) {
      await database.sql(
        `insert into usage_records (id, tenant_id, session_id, purpose, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)
         values ($1, 't', 's', 'turn', $2, 1, 1, 0, 0)`,
        [newId("usg"), model],
      );
    }
    await refreshProfiles(depsFor(simulator.url));
    const unknown = { max_input_tokens: null, max_output_tokens: null };
    expect(await profiles()).toEqual([unknown, unknown]);
    await database.sql("delete from model_profiles");
    await refreshProfiles(depsFor(simulator.url, { HANGO_OPENAI_BASE_URL: `${simulator.url}/v1` }));
    // OpenAI's list says nothing of a window, vLLM's does.
    expect(await profiles()).toEqual([unknown, { max_input_tokens: 128_000, max_output_tokens: null }]);
  });
});
