/** What the environment of this machine configures, as far as it is right: the configuration's problems, and the checks of what is there. */
import { type Config, ConfigError, parseConfig, variables } from "../../config.ts";
import { runnerVariables } from "../settings.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The bindings, which no shell has: they have the methods, and are never called. */
const neverCalled = async (): Promise<never> => {
  throw new Error("only the Worker has bindings");
};
const BINDINGS = {
  FILES: { get: neverCalled, put: neverCalled, list: neverCalled, delete: neverCalled, head: neverCalled },
  QUEUE: { send: neverCalled },
};

/** Stand where a required variable is missing or wrong, so that the others can be read; what depends on one is not checked. */
const STAND_INS: Readonly<Record<string, string>> = {
  DATABASE_URL: "postgres://nobody@localhost/nothing",
  ANTHROPIC_API_KEY: "none",
  HANGO_ADMIN_KEY: "stands-in-for-a-missing-key",
};

export interface ReadEnvironment {
  readonly config: Config;
  /** One line each, without secrets: the variable, then what is wrong. */
  readonly problems: readonly string[];
  /** Whether a variable is set and right. */
  readonly has: (name: string) => boolean;
}

const isOurs = (name: string): boolean =>
  (Object.hasOwn(variables, name) || name.startsWith("HANGO_")) && !Object.hasOwn(runnerVariables, name);

/** Reads the Worker's configuration from a shell's environment. Every problem is found; what is wrong counts as not set. */
export const readEnvironment = (env: Environment): ReadEnvironment => {
  const given = new Map(Object.entries(env).filter(([name, value]) => isOurs(name) && (value ?? "") !== ""));
  const standIns = new Map<string, string>();
  const problems: string[] = [];
  for (;;) {
    try {
      const config = parseConfig({ ...BINDINGS, ...Object.fromEntries([...given, ...standIns]) });
      return { config, problems, has: (name) => given.has(name) };
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      for (const problem of error.problems) {
        const name = problem.slice(0, problem.indexOf(":"));
        const standIn = given.has(name) || !standIns.has(name) ? STAND_INS[name] : undefined;
        // A problem that nothing here can be taken out for would come again for ever.
        if (!given.delete(name) && standIn === undefined) throw error;
        if (standIn !== undefined) standIns.set(name, standIn);
        problems.push(problem);
      }
    }
  }
};
