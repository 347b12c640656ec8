/**
 * A platform for the tests of one file, and for each test a tenant of its own with one session. What is exported here by name are bindings
 * that follow: a test sees those of its own. Each test file has a copy of this module.
 */
import { afterAll, beforeAll, beforeEach } from "vitest";
import {
  type Answer,
  type Call,
  callerOf,
  makeTenant,
  startTestPlatform,
  type Tenant,
  type TestPlatform,
  type TestPlatformOptions,
} from "./platform.ts";

export let platform: TestPlatform;
export let tenant: Tenant;
/** Calls the API as the tenant. */
export let call: Call;
/** The session's id. */
export let session: string;

/** To be called once, at the top of the file. @param fields of the session that each test begins with */
export const useOwnSession = (fields: object = {}, options: TestPlatformOptions = {}): void => {
  beforeAll(async () => {
    platform = await startTestPlatform(options);
  }, 120_000);
  afterAll(() => platform.close());
  beforeEach(async () => {
    platform.simulator.reset();
    tenant = await makeTenant(platform.database);
    call = callerOf(platform.url, tenant);
    session = (await call("POST", "/v1/sessions", fields)).body.id;
  });
};

/** A turn of the session. */
export const turn = (body: object | string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  call("POST", `/v1/sessions/${session}/turns`, body, headers);
