import type { Passed } from "./pass-checks.ts";
import type { Shape } from "./shape.ts";

export const checkGuards = (_shape: Shape, _passed: Passed): void => undefined;
