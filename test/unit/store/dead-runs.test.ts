/** What a run used whose Worker died counts in its session, whoever records its end. */
import { describe, expect, it } from "vitest";
import { newId, seq, type TenantId } from "../../../src/protocol/ids.ts";
import { beginTurn } from "../../../src/store/begin.ts";
import { failGivenUp } from "../../../src/store/give-up.ts";
import type { LoadedSession } from "../../../src/store/loaded-session.ts";
import { takeMaintenanceLease } from "../../../src/store/maintenance-lease.ts";
import { commitRevision } from "../../../src/store/revisions.ts";
import { storeAssistant } from "../../../src/store/steps.ts";
import { strandedRuns } from "../../../src/store/take.ts";
import { database, db, fixture, useOwnStore } from "../../support/own-store.ts";
import { change, compaction, NO_TOTALS, recordOf, start, textRow, turnOf } from "../../support/store.ts";

useOwnStore();

const PAST_THE_LEASE_SECONDS = 181;
const USED = { inputTokens: 900, outputTokens: 90, cacheReadTokens: 5, cacheWriteTokens: 7 };

const counted = async () => {
  const [row] = await database.sql(
    `select compactions, input_tokens::int as input, output_tokens::int as output, cache_read_tokens::int as read,
      cache_write_tokens::int as write, cost_usd::float as cost from sessions where id = $1`,
    [fixture.sessionId],
  );
  return row;
};

const tenant = async (): Promise<TenantId> => {
  const [row] = await database.sql("select tenant_id from sessions where id = $1", [fixture.sessionId]);
  return String(row?.tenant_id) as TenantId;
};

/** Work between turns that has committed a compaction, and paid for it, when its Worker dies. */
const deadMaintenance = async (): Promise<LoadedSession> => {
  const taken = await takeMaintenanceLease(db, {
    tenantId: await tenant(),
    keyId: null,
    session: { id: fixture.sessionId },
    runId: newId("run"),
    startedAt: "2026-01-01T00:00:00.000Z",
    limits: null,
  });
  if (taken.kind !== "started") throw new Error(taken.kind);
  const { session } = taken;
  const usage = { id: newId("usg"), purpose: "summarize", model: "m", usage: USED, costUsd: 0.5 } as const;
  const record = { ...recordOf(session), usage: [usage] };
  expect(await commitRevision(db, session, change(session, { compaction: compaction(), record }))).toBe(true);
  await database.advanceClock(PAST_THE_LEASE_SECONDS);
  return session;
};

const ALL = { compactions: 1, input: 900, output: 90, read: 5, write: 7, cost: 0.5 };

describe("work between turns whose Worker died after its commit counts in the session, once,", () => {
  it("when the next turn takes the session over", async () => {
    await deadMaintenance();
    const turn = turnOf(fixture);
    expect((await beginTurn(db, turn)).kind).toBe("started");
    expect(await counted()).toEqual(ALL);
    await beginTurn(db, turn);
    expect(await counted()).toEqual(ALL);
  });

  it("when the sweeper ends it", async () => {
    await deadMaintenance();
    await strandedRuns(db, 10);
    expect(await counted()).toEqual(ALL);
    await strandedRuns(db, 10);
    expect(await counted()).toEqual(ALL);
  });
});

it("a run that is given up counts with what it had used", async () => {
  const session = await start(db, fixture);
  const { holder } = session.lease;
  const message = { row: textRow("assistant", "calls", holder, ["call"]), seq: seq(session.nextSeq) };
  await storeAssistant(db, session, message, NO_TOTALS, recordOf(session));
  await database.advanceClock(PAST_THE_LEASE_SECONDS);
  await failGivenUp(db, session.tenantId, holder, null);
  expect(await counted()).toEqual({ compactions: 0, input: 10, output: 5, read: 0, write: 0, cost: 0.25 });
});
