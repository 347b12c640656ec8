import { describeSessions } from "../support/session-suite.ts";

describeSessions({ seed: 2_000_003, runs: 8_000, maxTurns: 7, limitMs: 3_600_000 });
