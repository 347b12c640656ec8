import { describeSessions } from "../../support/session-suite.ts";

describeSessions({ seed: 20_261_130, runs: 1_000, maxTurns: 4, limitMs: 180_000 });
