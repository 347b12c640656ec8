/** Variables of the local runner, which the Worker never sees. */
import { z } from "zod";
import { ConfigError, variableProblems, variables as workerVariables } from "../config.ts";
import { problemOf, readers, unknownVariables, variable } from "../protocol/variables.ts";

export const runnerVariables = {
  PORT: variable.defaulted(
    {
      description: "Port that `npm start` listens on, on 127.0.0.1. With 0 the system picks a free one.",
      ...readers.wholeNumber.words(0, 65_535),
      default: "8787",
    },
    readers.wholeNumber(0, 65_535),
  ),
  HANGO_DATA_DIR: variable.defaulted(
    {
      description:
        "Where the local platform keeps its database, files and queue. One directory for each copy that runs.",
      allowed: "a path",
      default: ".hango",
    },
    readers.text(/\S/),
  ),
};

const schema = z.object(runnerVariables);

export interface Settings {
  readonly port: number;
  readonly dataDir: string;
}

/**
 * Reads the runner's own variables, and checks those that are for the Worker, so that a wrong one shows before anything starts.
 * @throws ConfigError for a wrong value, and for a `HANGO_` variable that neither the runner nor the Worker reads
 */
export const parseSettings = (env: Readonly<Record<string, string | undefined>>): Settings => {
  const names = Object.keys(runnerVariables);
  const parsed = schema.safeParse(Object.fromEntries(names.map((name) => [name, env[name]])));
  const known = [...Object.keys(workerVariables), ...names];
  const problems = [
    ...(parsed.error?.issues.map(problemOf) ?? []),
    ...variableProblems(env),
    ...unknownVariables(Object.keys(env), known),
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return { port: parsed.data.PORT, dataDir: parsed.data.HANGO_DATA_DIR };
};

/** The part of an environment that is the Worker's: what to hand to it as bindings. */
export const workerEnvironment = (
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(workerVariables).flatMap(([name, field]): [string, string][] => {
      const value = env[name];
      return field.meta()?.kind !== "variable" || value === undefined || value === "" ? [] : [[name, value]];
    }),
  );
