import { MODES } from "./faults.ts";
import { declarePoints } from "./points.ts";
import { openCallerScenario } from "./scenario.ts";

await declarePoints({
  title: "a turn that waits for its caller",
  open: openCallerScenario,
  first: 0,
  of: 1,
  // Cancelling is the same here as in the other turn, but for a run that waits, which no call of a Worker stands for.
  modes: MODES.filter((mode) => mode !== "cancelled"),
});
