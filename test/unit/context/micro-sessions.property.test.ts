import { describeSessions } from "../../support/session-suite.ts";

// More of them, with more turns, and faults that must show: `test/slow/micro-sessions.test.ts`.
describeSessions({
  seed: 20_261_201,
  runs: 60,
  maxTurns: 6,
  limitMs: 60_000,
  micro: { everyNTurns: 1, defragTokens: 200 },
});
