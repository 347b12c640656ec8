import { describeSessions } from "../support/session-suite.ts";

describeSessions({ seed: 1_000_003, runs: 12_000, maxTurns: 4, limitMs: 3_600_000 });
