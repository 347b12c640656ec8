/** What the database was told of the guards holds, whatever becomes of the climb that told it: a later write must not take it back. */
import type { CommitPort } from "../ports.ts";
import { afterProbation } from "./after.ts";
import type { GuardState } from "./state.ts";

/** The same port; the guards of the run follow what it stores beside a commit. */
export const rememberingCommit = (commit: CommitPort, live: { guards: GuardState }): CommitPort => ({
  commit: (change) => commit.commit(change),
  recordFailure: async (failure, guards, cooldownSeconds) => {
    await commit.recordFailure(failure, guards, cooldownSeconds);
    live.guards = guards;
  },
  armProbation: async () => {
    const probation = await commit.armProbation();
    live.guards = afterProbation(live.guards, probation);
    return probation;
  },
  takeProbe: async (attemptId) => {
    const answer = await commit.takeProbe(attemptId);
    live.guards = afterProbation(live.guards, answer.probation);
    return answer;
  },
});
