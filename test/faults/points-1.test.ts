import { MODES } from "./faults.ts";
import { declarePoints } from "./points.ts";
import { openScenario } from "./scenario.ts";

await declarePoints({ title: "a turn", open: (lane) => openScenario(lane), first: 0, of: 2, modes: MODES });
