/** Telemetry that tells nobody anything: for what must not be told of, such as a rehearsal, and for tests. */
import { noContent } from "./content.ts";
import { noopMeter } from "./meter.ts";
import { noopTracer } from "./tracer.ts";

export const noTelemetry = { tracer: noopTracer, meter: noopMeter, content: noContent } as const;
