/** The beginning of a run that works on a session between turns. Its end is in `maintenance.ts`. */
import type { KeyId, TenantId } from "../protocol/ids.ts";
import { begin } from "./begin.ts";
import type { BeginOutcome, BeginRun } from "./begin-request.ts";
import type { Db } from "./db.ts";

/** What work between turns has none of. */
const NO_TURN = {
  idempotencyKey: null,
  requestHash: null,
  input: null,
  onBusy: "reject",
  background: false,
  options: {},
  callbackUrl: null,
  triggerId: null,
  deliveryId: null,
} as const;

/** A run without an input of its own: it works on the session's view. */
export interface MaintenanceRun extends Pick<BeginRun, "session" | "runId" | "startedAt" | "limits"> {
  readonly tenantId: TenantId;
  /** Whose request it is; null for nobody's. */
  readonly keyId: KeyId | null;
}

export type MaintenanceOutcome = Extract<BeginOutcome, { readonly kind: "started" | "session_not_found" | "busy" }>;

/**
 * Takes the session's lease for work between turns, as a turn takes it: with a run of its own, and everything loaded that a turn loads.
 * @throws StoreUnavailable
 */
export const takeMaintenanceLease = async (db: Db, run: MaintenanceRun): Promise<MaintenanceOutcome> => {
  const { tenantId, keyId, ...rest } = run;
  const outcome = await begin(db, { ...rest, ...NO_TURN, caller: { tenantId, keyId }, trigger: "maintenance" });
  switch (outcome.kind) {
    case "started":
    case "session_not_found":
    case "busy":
      return outcome;
    case "unauthenticated":
    case "forbidden":
    case "replay":
    case "queued":
    case "joined":
    case "subagent":
      // The tenant is gone or suspended, or the id of the run is somebody else's: there is no session to work on.
      return { kind: "session_not_found" };
    default:
      return outcome satisfies never;
  }
};
